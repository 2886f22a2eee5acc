"""Overlapping passes: the bits of the model for any layers, torus, number of samples and pace of the host."""

import numpy as np
import pytest

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import Grid, Topology
from golden.dnp.array import EdgePort
from golden.dnp.layout import DoesNotFitError
from golden.dnp.mapper import map_network
from golden.dnp.network import Network, NetworkModel
from golden.dnp.passes import check
from golden.dnp.placement import Axis, Placement

CONFIG = ProcessorConfig(wm_depth=2048, xm_depth=256, p_depth=4096)


def random_network(sizes: tuple[int, ...], seed: int) -> Network:
    """Return a network with large weights and biases, so that sums saturate."""
    network = Network.random(sizes, seed, spread=2.0)
    rng = np.random.default_rng(seed)
    for biases in network.biases:
        biases[:] = rng.integers(-4096, 4096, biases.shape)
    return network


@pytest.mark.parametrize(
    ("sizes", "rows", "columns", "samples"),
    [
        ((7, 5, 4), 2, 2, 2),  # no step has all layers, inputs and outputs
        ((7, 5, 4), 2, 2, 7),  # two steady steps: no loop yet
        ((7, 5, 4), 2, 2, 8),  # a loop of two passes
        ((7, 5, 4), 2, 2, 11),  # a loop, and a steady step behind it
        ((9, 4), 2, 3, 9),  # one layer, outputs to the west
        ((8, 9, 5, 6), 3, 3, 10),  # three layers
        ((5, 3, 1, 4, 2), 3, 2, 13),  # processors without neurons
        ((1, 1), 2, 4, 5),
        ((30, 22, 14), 2, 2, 8),  # sums of several rounds wait in XM; LOOP does not reach back
    ],
)
def test_overlapping_passes_give_the_bits_of_the_model(
    sizes: tuple[int, ...], rows: int, columns: int, samples: int
) -> None:
    # The host keeps up with some, and not with others.
    pace = 0.3 if samples % 2 else 1.0
    network, grid = random_network(sizes, 5), Grid(rows, columns, Topology.TORUS)
    rng = np.random.default_rng(6)
    given = [(rng.integers(0, 32768, sizes[0]), None) for _ in range(samples)]
    mapping = map_network(network.copy(), grid, CONFIG, samples=samples, overlapped=True)
    machine, feeds = mapping.machine(), mapping.feeds(given)
    for edge in machine.edges:
        offers, accepts = ([bool(b) for b in rng.random(37) < pace] + [True] for _ in range(2))
        machine.edges[edge] = EdgePort(feeds[edge].words if edge in feeds else [], offers, accepts)
    machine.run(100_000)
    for _ in range(40):
        machine.step()
    model = NetworkModel(network, mapping.placement)
    check(mapping, model, given, machine.state.wm.tolist(), {e: end.received for e, end in machine.edges.items()})
    assert not machine.state.code.any()


def test_a_stream_takes_the_clocks_of_the_busiest_processor() -> None:
    """Passes one after the other wait for words on their way; overlapping ones do not."""
    network, grid = random_network((30, 30, 30), 1), Grid(6, 6, Topology.TORUS)
    rng = np.random.default_rng(2)
    given = [(rng.integers(0, 32768, 30), None) for _ in range(10)]
    clocks = {}
    for overlapped in (False, True):
        machines = []
        for samples in (6, 10):
            mapping = map_network(network, grid, CONFIG, samples=samples, overlapped=overlapped)
            machine = mapping.machine()
            machine.edges.update(mapping.feeds(given[:samples]))
            machine.run(100_000)
            machines.append(machine)
        short, long = (machine.state for machine in machines)
        clocks[overlapped] = (long.clocks.max() - short.clocks.max()) / 4
        if overlapped:
            busy = ((long.clocks - long.blocked) - (short.clocks - short.blocked)).max() / 4
            assert clocks[True] < 1.12 * busy
    assert clocks[True] < 0.85 * clocks[False]


def test_passes_overlap_where_they_can_and_memories_hold_them() -> None:
    network, torus = random_network((48, 32, 24), 0), Grid(8, 8, Topology.TORUS)
    mark = "MOV RF7 WA0"
    assert mark in map_network(network, torus, CONFIG, samples=9).texts[0]
    # Few samples, or short rings, are quicker one after the other.
    assert mark not in map_network(network, torus, CONFIG, samples=7).texts[0]
    assert mark not in map_network(network, Grid(4, 4, Topology.TORUS), CONFIG, samples=9).texts[0]
    assert mark in map_network(network, Grid(4, 4, Topology.TORUS), CONFIG, samples=9, overlapped=True).texts[0]
    small = ProcessorConfig(wm_depth=2048, xm_depth=15, p_depth=4096)
    assert mark not in map_network(network, torus, small, samples=9).texts[0]
    with pytest.raises(DoesNotFitError, match="words of XM"):
        map_network(network, torus, small, samples=9, overlapped=True)
    for grid, samples in ((Grid(2, 2), 3), (torus, 1), (Grid(1, 4, Topology.TORUS), 3)):
        with pytest.raises(ValueError, match="overlapped must be False without a torus of 2 x 2"):
            map_network(network, grid, CONFIG, samples=samples, overlapped=True)


def test_no_processor_has_the_larger_blocks_of_both_layers_beside_one() -> None:
    placement = Placement((260, 260, 260), 32, 32, ring=True, rounds=True)
    work = [
        len(placement.held(1, r, c)) * (len(placement.held(0, r, c)) + len(placement.held(2, r, c)))
        for r in range(32)
        for c in range(32)
    ]
    assert max(work) == 9 * 17


def test_sums_are_finished_by_positions_with_less_to_do() -> None:
    placement = Placement((260, 260, 260), 32, 32, ring=True, rounds=True)
    for row in (0, 31):
        owners = [c for c in range(32) if placement.owned(1, row, c)]
        assert len(owners) == len(placement.held(1, row, 0))
        assert min(owners) >= 4
        assert max(owners) < 28
    axis = Axis(6, ring=True, rounds=True, light=(1, 2, 4, 5))
    assert axis.chunks(2) == [[], [], [0], [], [], [1]]
    assert [len(chunk) for chunk in axis.chunks(7)] == [1, 1, 1, 1, 1, 2]
    # Half of the positions are too few to be preferred.
    assert Axis(6, ring=True, rounds=True, light=(0, 1, 2)).chunks(2) == [[], [], [0], [], [], [1]]
