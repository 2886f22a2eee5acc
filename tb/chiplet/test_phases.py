"""Every cycle of a chiplet's run has a name: gaps between commands are told apart and fill it."""

from hypothesis import given
from hypothesis import strategies as st

from sim.runner.phases import Gap, Phase, every_cycle


def test_gaps_between_commands_have_names() -> None:
    phases = [Phase(0, "load_weights", 50, 30), Phase(0, "combine", 100, 83), Phase(0, "aggregate", 10, 186)]
    assert every_cycle(phases, 10, 200) == [
        Phase(None, Gap.START, 20, 10),
        phases[0],
        Phase(None, Gap.BETWEEN, 3, 80),
        phases[1],
        Phase(None, Gap.BETWEEN, 3, 183),
        phases[2],
        Phase(None, Gap.END, 4, 196),
    ]


def test_the_ring_goes_on_with_a_part() -> None:
    """A command for the ring waits for the SCATTER before; any other does not, and none for a LIST."""
    names = ("list", "combine", "barrier", "scatter", "combine", "scatter", "combine", "aggregate")
    lengths = (2, 40, 5, 3, 60, 70, 80, 90)
    gaps = (3, 3, 4, 3, 30, 3, 3)
    phases, at = [], 0
    for name, length, gap in zip(names, lengths, (*gaps, 0), strict=True):
        phases.append(Phase(1, name, length, at))
        at += length + gap
    found = [(layer, name, cycles) for layer, name, cycles, _ in every_cycle(phases, 0, at) if name not in names]
    assert found == [
        (None, Gap.BETWEEN, 3),
        (None, Gap.BETWEEN, 3),
        (None, Gap.BETWEEN, 4),
        (None, Gap.BETWEEN, 3),
        (1, Gap.SCATTER, 27),
        (None, Gap.BETWEEN, 3),
        (None, Gap.BETWEEN, 3),
        (None, Gap.BETWEEN, 3),
    ]


def test_a_run_without_commands_is_all_start() -> None:
    assert every_cycle([], 5, 25) == [Phase(None, Gap.START, 20, 5)]


def test_a_command_that_fails_ends_with_the_run() -> None:
    assert every_cycle([Phase(0, "combine", 11, 5)], 0, 15)[-1] == Phase(0, "combine", 10, 5)


@given(st.lists(st.tuples(st.sampled_from(["list", "scatter", "reduce", "combine"]), *[st.integers(1, 50)] * 2)))
def test_phases_follow_one_another_without_a_hole(commands: list[tuple[str, int, int]]) -> None:
    phases, at = [], 7
    for name, gap, length in commands:
        phases.append(Phase(0, name, length, at + gap))
        at += gap + length
    filled = every_cycle(phases, 7, at + 2)
    assert [phase for phase in filled if phase.opcode not in set(Gap)] == phases
    for phase in filled:
        assert phase.cycles > 0
    assert [phase.began for phase in filled] == [7 + sum(p.cycles for p in filled[:n]) for n in range(len(filled))]
    assert sum(phase.cycles for phase in filled) == at + 2 - 7
