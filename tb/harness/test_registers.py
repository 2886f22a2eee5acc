"""Verilog with registers that the processes of their next values write."""

from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from scripts.blocks import find
from scripts.flows.yosys import yosys
from sim.harness.build import to_rtlil
from sim.harness.registers import written_in_place


class Registers(wiring.Component):
    """Registers that keep their value, that pulse, of which a part is written, and one whose next value is read."""

    def __init__(self) -> None:
        words = data.ArrayLayout(8, 4)
        outputs = {"kept": 8, "pulse": 1, "words": words, "apart": 8, "counted": 8}
        super().__init__(
            {"enable": In(1), "index": In(2), "value": In(8), **{name: Out(shape) for name, shape in outputs.items()}}
        )

    def elaborate(self, platform: object) -> Module:
        """Write each in its way."""
        m = Module()
        following = Signal(8)
        m.d.comb += following.eq(self.counted + 1)
        m.d.sync += [self.counted.eq(following), self.pulse.eq(0)]
        with m.If(self.enable):
            m.d.sync += [self.kept.eq(self.value), self.pulse.eq(1), self.words[self.index].eq(self.value)]
            m.d.sync += self.apart[2:4].eq(self.value)
        return m


def _before(component: object, name: str) -> str:
    return str(verilog._convert_rtlil_text(to_rtlil(component, name), strip_internal_attrs=True))


def test_a_register_is_written_at_the_edge_only() -> None:
    before = _before(Registers(), "registers")
    after = written_in_place(before)
    assert "always @*" in before
    assert "always @*" not in after
    assert "  always @(posedge clk) begin\n    if (enable) begin\n      kept <= value;\n    end\n" in after
    assert "    pulse <= 1'h0;\n    if (enable) begin\n      pulse <= 1'h1;\n" in after
    assert "apart[3:2] <= value[1:0];" in after
    # No name of a next value is left, so none is declared in vain.
    assert len(after) < len(before)


@pytest.mark.parametrize("name", ["registers", "stream.queue", "stream.slice", "community.scanner", "ring.station"])
def test_it_is_the_same_design(name: str, tmp_path: Path) -> None:
    component = Registers() if name == "registers" else find(name)[0].make()
    before = _before(component, "top")
    after = written_in_place(before)
    assert after.count("always @*") < before.count("always @*")
    for side, text in (("gold", before), ("gate", after)):
        (tmp_path / f"{side}.v").write_text(text)
    read = "".join(
        f"read_verilog -sv {side}.v\nhierarchy -top top\nproc\nflatten\nchformal -remove\ndelete t:$print t:$check\n"
        f"memory_map\nopt_clean\nrename top {side}\ndesign -stash {side}\n"
        for side in ("gold", "gate")
    )
    yosys(
        f"{read}design -copy-from gold gold\ndesign -copy-from gate gate\n"
        "equiv_make gold gate equal\nhierarchy -top equal\nopt_clean\n"
        "equiv_simple\nequiv_induct\nequiv_status -assert\n",
        cwd=tmp_path,
    )
