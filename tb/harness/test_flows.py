"""The flows behind the command line: each finds what it is there to find."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from contracts.errors import InputError
from hw.stream.queue import Queue
from hw.stream.slice import Slice
from scripts import blocks
from scripts.blocks import BLOCKS, find, measured_by, measured_elsewhere
from scripts.flows import contracts, cover, equivalence, generate, mutate, synth
from scripts.flows.modules import own_modules
from scripts.flows.yosys import ToolError, yosys
from sim.harness import expected
from sim.harness.build import to_rtlil
from tb.harness.marks import full


def test_parts_that_other_benches_measure_count_there() -> None:
    model = "".join(
        f'attribute \\generator "x"\nattribute \\src "/some/where/{file}:7"\nmodule \\{name}\nend\n'
        for name, file in [
            ("top", "hw/a/top.py"),
            ("top.own", "hw/a/top.py"),
            ("top.own.memory", "lib/amaranth/lib/memory.py"),
            ("top.queue", "hw/stream/queue.py"),
            ("top.queue.fifo", "lib/amaranth/lib/fifo.py"),
            ("top.queue.part", "hw/stream/part.py"),
            ("top.queued", "hw/a/queued.py"),
        ]
    )
    own = own_modules(model, "top", {"hw/stream/queue.py"})
    assert own == {"top", "top.own", "top.own.memory", "top.queued"}
    assert own_modules(model, "top", {"hw/stream/queue.py"}, "hw/a/top.py") == {"top", "top.own"}
    assert own_modules(model, "top", {"hw/stream/queue.py"}, "hw/stream/part.py") == {"top.queue.part"}
    # A bench around a block is none of its hardware.
    assert own_modules(model.replace("hw/a/top.py", "tb/a/top.py"), "top", set()) == {
        "top.own.memory",
        "top.queue",
        "top.queue.fifo",
        "top.queue.part",
        "top.queued",
    }
    memory_side = find("memory.memory_side")[0]
    assert "hw/stream/queue.py" in measured_elsewhere(memory_side)
    assert not {"hw/memory/fetcher.py", "hw/memory/write_port.py"} & measured_elsewhere(memory_side)
    assert "hw/memory/fetcher.py" in measured_elsewhere(find("graph.csr_reader")[0])
    # A block without a bench is measured by the one around it.
    assert measured_by(find("attributes.fetch_walk")[0]) is find("attributes.accelerator")[0]
    assert measured_by(memory_side) is memory_side
    with pytest.raises(blocks.UserError, match=r"host.queued has no bench, and no other block's bench measures it"):
        measured_by(find("host.queued")[0])


def test_every_block_of_the_list_can_be_made() -> None:
    assert len({block.module for block in BLOCKS}) == len(BLOCKS)
    for block in BLOCKS:
        block.make()
        if block.bench is not None:
            importlib.import_module(block.bench)
            block.make_for_bench(block.bench_parameters)
            block.make_for_bench(block.bench_parameters if block.narrow is None else block.narrow)
        if block.formal is not None:
            specs = importlib.import_module(block.formal)
            # Covers, or a claim that has to be refuted, show that the proofs are not vacuous.
            shown = "cover" in {proof.mode for proof in specs.PROOFS} or hasattr(specs, "REFUTED")
            assert shown, f"{block.name}: nothing shows that its proofs are not vacuous"


def test_blocks_are_found_by_name_area_and_all() -> None:
    assert [block.name for block in find("stream.slice")] == ["stream.slice"]
    assert [block.name for block in find("stream")] == [
        "stream.queue",
        "stream.slice",
        "stream.crossing",
        "stream.arbiter",
        "stream.wide_arbiter",
        "stream.crossbar",
    ]
    assert find("all") == list(BLOCKS)
    with pytest.raises(
        InputError, match=r"block: there is no 'nix'; expected all, <area>.<block>, <area> one of stream"
    ):
        find("nix")
    with pytest.raises(InputError, match=r"there is no 'locator.state_stor', perhaps locator.state_store"):
        find("locator.state_stor")
    with pytest.raises(InputError, match=r"there is no 'state_store', perhaps locator.state_store"):
        find("state_store")
    with pytest.raises(InputError, match=r"there is no 'stream.x'.*; expected all, stream.queue, stream.slice, "):
        find("stream.x")
    with pytest.raises(
        InputError, match=r"there is no 'machin', perhaps machine or dnp.machine; expected all, machine, <area>"
    ):
        find("machin", "machine")


def test_a_request_that_cannot_be_carried_out_ends_in_one_line_and_status_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.cli", "generate", "nix"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("atoll: block: there is no 'nix'")
    assert done.stderr.count("\n") == 1


def test_generated_files_describe_the_block(tmp_path: Path) -> None:
    made = generate.generate(find("stream.arbiter")[0], tmp_path, linted=True)
    text = made.verilog.read_text()
    assert text.startswith("// stream.arbiter, generated by atoll")
    assert "//   count = 4\n" in text
    assert "cover" not in text
    ports = {port["name"]: port for port in json.loads(made.ports.read_text())}
    assert ports["i__3__ready"] == {"name": "i__3__ready", "direction": "output", "width": 1}
    assert ports["o__payload"]["fields"]["source"] == {"offset": 32, "width": 2}
    assert "toplevel: stream_arbiter" in made.core.read_text()
    assert made.modules == 2


def test_lint_refuses_a_combinational_loop(tmp_path: Path) -> None:
    path = tmp_path / "loop.v"
    path.write_text("module loop(input a, output [1:0] b); assign b = {b[0] ^ a, b[1]}; endmodule\n")
    with pytest.raises(ToolError, match="loop"):
        generate.lint(path, "loop")


def test_areas_may_differ_by_two_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    def area(luts: int) -> synth.Area:
        return synth.Area("x.y", luts=luts, ffs=0, dsps=1, brams=0, fmax=None, cells={})

    monkeypatch.setattr(synth, "expected_area", lambda block: {"luts": 1000, "ffs": 0, "dsps": 1, "brams": 0})
    assert synth.deviations([area(1020), area(980)]) == []
    assert synth.deviations([area(1021)]) == ["x.y: luts 1021, expected 1000 within 2%"]
    monkeypatch.setattr(synth, "expected_area", lambda block: None)
    assert "no area in tb/expected.toml" in synth.deviations([area(1)])[0]


def test_the_shell_needs_four_pads() -> None:
    text = synth.shell(Queue(7, 4), "queue")
    assert text.startswith("module shell(input clk, input rst, input si, output so);")
    # 7 payload bits, valid and ready go in; 7 payload bits, valid, ready and 3 bits of level come out.
    assert "reg [8:0] in; reg [11:0] out;" in text


def test_ports_of_the_shell_may_have_any_name(tmp_path: Path) -> None:
    class Ends(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"end": In(1), "begin": Out(1)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.sync += self.begin.eq(self.end)
            return m

    (tmp_path / "model.il").write_text(to_rtlil(Ends(), "ends"))
    (tmp_path / "shell.v").write_text(synth.shell(Ends(), "ends"))
    yosys("read_rtlil model.il\nread_verilog shell.v\nhierarchy -check -top shell\n", cwd=tmp_path, name="shell")


@pytest.mark.parametrize(
    ("luts", "wanted"),
    [
        (synth.LARGE, ()),
        (synth.LARGEST, synth.LARGE_OPTIONS),
        (synth.LARGEST + 1, (*synth.LARGE_OPTIONS, "--no-route")),
    ],
)
def test_large_blocks_are_placed_and_routed_in_another_way(
    luts: int, wanted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def ran(_: str, arguments: list[str], **__: object) -> str:
        asked.extend(arguments)
        return "Max frequency for clock 'clk': 20.00 MHz\nMax frequency for clock 'clk': 61.50 MHz"

    monkeypatch.setattr(synth, "run_tool", ran)
    (tmp_path / "model.il").write_text(to_rtlil(Slice(3), "slice"))
    assert synth._fmax(Slice(3), tmp_path, "slice", luts) == (61.5, None)
    assert tuple(asked[len(asked) - len(wanted) :]) == wanted
    assert ("--placer" in asked, "--no-route" in asked) == ("--placer" in wanted, "--no-route" in wanted)
    assert 'LOCATE COMP "clk" SITE "G2";' in (tmp_path / "pads.lpf").read_text()


def test_what_was_routed_is_known_for_the_same_design_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(synth, "BUILD", tmp_path)
    monkeypatch.setattr(synth, "run_tool", lambda *_, **__: "Max frequency for clock 'clk': 61.50 MHz")
    (block,) = find("stream.slice")
    assert synth.routed(block) is None
    area = synth.synth(block)
    assert area.fmax == 61.5
    assert synth.routed(block) == area
    assert synth.routed(replace(block, parameters={"shape": 31})) is None
    # An area alone is none.
    monkeypatch.setattr(synth, "BUILD", tmp_path / "other")
    synth.synth(block, fmax=False)
    assert synth.routed(block) is None


def test_no_wire_is_named_like_a_bit_of_another(tmp_path: Path) -> None:
    (tmp_path / "model.il").write_text(to_rtlil(Slice(data.ArrayLayout(data.ArrayLayout(3, 2), 2)), "slice"))
    for prepare, wires in ((synth.PREPARE, "none"), (synth.PREPARE.replace("rename", "# rename"), "any")):
        script = f"read_rtlil model.il\nhierarchy -top slice\n{prepare}select -assert-{wires} w:*[[]*\n"
        yosys(script, cwd=tmp_path, name="names")


def test_cycles_are_compared_exactly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "expected.toml"
    path.write_text('[cycles]\n"a" = 10\n\n[area]\n"x" = { luts = 1 }\n')
    monkeypatch.setattr(expected, "EXPECTED", path)
    monkeypatch.delenv("ATOLL_UPDATE", raising=False)
    expected.expect_cycles("a", 10)
    with pytest.raises(AssertionError, match="a: 11 cycles, expected 10"):
        expected.expect_cycles("a", 11)
    with pytest.raises(AssertionError, match="no such entry"):
        expected.expect_cycles("b", 5)
    monkeypatch.setenv("ATOLL_UPDATE", "1")
    expected.expect_cycles("a", 11)
    expected.expect_cycles("b", 5)
    expected.record("area", "x", {"luts": 2})
    assert path.read_text() == '[cycles]\n"a" = 11\n"b" = 5\n\n[area]\n"x" = { luts = 2 }\n'


@full
def test_mutants_are_killed_or_shown_equal() -> None:
    score = mutate.mutate(find("stream.slice")[0], count=6, seed=3)
    assert 0 < score.mutants <= 6
    assert score.killed + score.proved + score.bounded + len(score.survivors) == score.mutants
    assert score.percent == 100


@full
def test_a_bench_that_looks_at_little_leaves_survivors() -> None:
    weak = blocks.Block(
        name="stream.weak",
        factory="hw.stream.slice:Slice",
        bench="tb.stream.test_slice",
        bench_factory="tb.stream.test_slice:slice_",
        bench_parameters={"width": 3},
        testcase=("one_word_passes_per_cycle_after_one_cycle",),
    )
    score = mutate.mutate(weak, count=12, seed=3)
    assert score.survivors
    assert all("hw/stream/slice.py" in mutant.source or not mutant.source for mutant in score.survivors)
    assert not mutate.report([score])


def test_the_comparison_tells_equal_from_different() -> None:
    mutator = mutate.Mutator(6, 3)
    component = Slice(2)
    mutator(component, "stream_slice")
    assert mutator.folder is not None
    folder, first = mutator.folder, mutator.mutants()[0]
    module = first.place.split()[0]
    assert equivalence.compare(component, folder, module, 0, 8, 60) == "proved"
    assert equivalence.compare(component, folder, module, first.number, 8, 60) == "different"


class _Unused(wiring.Component):
    """A counter of eight bits, four of which nothing looks at."""

    def __init__(self) -> None:
        super().__init__({"step": In(2), "low": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(8)
        m.d.sync += count.eq(count + self.step)
        m.d.comb += self.low.eq(count)
        return m


def test_mutants_that_lead_nowhere_are_known_all_at_once() -> None:
    mutator = mutate.Mutator(30, 5)
    mutator(_Unused(), "unused")
    assert mutator.folder is not None
    mutants = {mutant.number: mutant for mutant in mutator.mutants()}
    gone = equivalence.without_effect(mutator.folder, mutants, 60)
    assert 0 < len(gone) < len(mutants)
    for number in sorted(gone)[:3]:
        module = mutants[number].place.split()[0]
        assert equivalence.compare(_Unused(), mutator.folder, module, number, 8, 60) != "different"
    # What comes out inverted is not equal.
    assert any(mutant.mode == "inv" and number not in gone for number, mutant in mutants.items())
    assert equivalence.without_effect(mutator.folder, mutants, 0.01) == set()


def test_coverage_is_read_by_module_and_kind(tmp_path: Path) -> None:
    def record(kind: str, module: str, line: int, comment: str, hits: int) -> str:
        fields = {"f": "x.v", "l": line, "t": kind, "page": f"v_{kind}/{module}", "o": comment}
        return "C '" + "".join(f"\x01{key}\x02{value}" for key, value in fields.items()) + f"' {hits}\n"

    path = tmp_path / "coverage.dat"
    path.write_text(
        record("line", "top", 3, "block", 2)
        + record("line", "top", 3, "block", 1)
        + record("line", "top.part", 4, "block", 0)
        + record("line", "stream_rules__W1", 5, "block", 9)
        + record("toggle", "top", 6, "i___05Fvalid:0->1", 1)
    )
    own = cover._read(path, {"top"})
    assert own == {("line", 3, "block", "top"): 3, ("toggle", 6, "i__valid:0->1", "top"): 1}
    assert len(cover._read(path, {"top", "top.part"})) == 3
    points = (cover.Point("line", "a", 0), cover.Point("line", "b", 1), cover.Point("line", "c", 0, "cannot happen"))
    coverage = cover.Coverage("x.y", points)
    assert coverage.counts("line") == (1, 2)
    assert not coverage.good


def test_the_document_of_contracts_is_that_of_the_table() -> None:
    path = contracts.ROOT / "docs" / "contracts.md"
    assert path.read_text() == contracts.markdown(), "run `atoll contracts`"
