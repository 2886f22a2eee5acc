"""Folding of flip-flops into block RAMs and multipliers: what moves, what stays, and that the circuit stays equal."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.flows.fold import Folded, fold, net
from scripts.flows.yosys import ToolError, yosys

#: A memory of `WIDTH` bits with a register behind its output.
MEMORY = """
module top(input clk, input rst, input [8:0] w, input [8:0] r, input we, input re, input oe, input [35:0] d,
           output reg [WIDTH-1:0] q, output [7:0] s);
  reg [WIDTH-1:0] rows [0:511]; reg [WIDTH-1:0] word;
  always @(posedge clk) begin
    if (we) rows[w] <= d;
    READ
  end
  EXTRA
endmodule
"""
#: A multiplier with registers all around.
PRODUCT = """
module top(input clk, input rst, input oe, input [15:0] a, input [15:0] b, output reg [31:0] q, output [15:0] s);
  reg [15:0] x, y; wire [31:0] p = x * y;
  always @(posedge clk) begin
    WORK
  end
  EXTRA
endmodule
"""


def mapped(folder: Path, source: str) -> dict[str, Any]:
    (folder / "top.v").write_text(source)
    yosys("read_verilog top.v\nsynth_ecp5 -top top -no-rw-check\nwrite_json top.json\n", cwd=folder)
    netlist: dict[str, Any] = json.loads((folder / "top.json").read_text())
    return netlist


def memory(read: str, extra: str = "assign s = 0;", width: int = 36) -> str:
    return MEMORY.replace("WIDTH", str(width)).replace("READ", read).replace("EXTRA", extra)


def product(work: str, extra: str = "assign s = 0;") -> str:
    return PRODUCT.replace("WORK", work).replace("EXTRA", extra)


def folded(folder: Path, source: str) -> tuple[Folded, dict[str, Any]]:
    netlist = mapped(folder, source)
    return fold(netlist, "top"), netlist


def models(gated: bool) -> str:
    """Return Verilog of the two cells, with eight words a memory, and a product that is cheap to reason about.

    The pass changes neither. With `gated` the enable of a port also stops its output register; descriptions of the
    device differ there.
    """

    def bits(prefix: str, count: int) -> str:
        return ", ".join(f"{prefix}{n}" for n in reversed(range(count)))

    sides = ", ".join(
        f"input {bits(f'DI{s}', 18)}, {bits(f'AD{s}', 14)}, CE{s}, OCE{s}, CLK{s}, WE{s}, RST{s}, {bits(f'CS{s}', 3)}, "
        f"output {bits(f'DO{s}', 18)}"
        for s in "AB"
    )
    values = "".join(f'parameter INITVAL_{n:02X} = "";' for n in range(64))
    registers = "".join(f'parameter REG_{r}_{k} = "NONE";' for r in REGISTERS for k in ("CLK", "CE", "RST"))
    return f"""
module DP16KD({sides});
  {values}
  {"".join(f'parameter {name} = "";' for name in RAM_PARAMETERS)}
  parameter DATA_WIDTH_A = 18; parameter DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG"; parameter REGMODE_B = "NOREG";
  reg [35:0] rows [0:7]; reg [35:0] word, late; integer n;
  initial for (n = 0; n < 8; n = n + 1) rows[n] = 0;
  initial word = 0;
  initial late = 0;
  wire [35:0] next = rows[{{{bits("ADB", 8)}}} >> 5];
  always @(posedge CLKB) begin
    if (CEA && WEA) rows[{{{bits("ADA", 8)}}} >> 5] <= {{{bits("DIB", 18)}, {bits("DIA", 18)}}};
    if (CEB) word <= next;
    if (OCEB && {"CEB" if gated else "1"}) late <= word;
  end
  wire [35:0] out = REGMODE_B == "OUTREG" ? late : word;
  wire mixed = DATA_WIDTH_B == 36 && REGMODE_A != REGMODE_B;
  assign {{{bits("DOA", 18)}}} = mixed ? 0 : out[35:18];
  assign {{{bits("DOB", 18)}}} = out[17:0];
endmodule
module MULT18X18D(input {bits("A", 18)}, {bits("B", 18)}, {bits("C", 18)}, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    {", ".join(f"CLK{n}, CE{n}, RST{n}" for n in range(4))}, output {bits("P", 36)});
  {registers} {"".join(f'parameter CLK{n}_DIV = "";' for n in range(4))} parameter RESETMODE = "";
  wire [17:0] a = {{{bits("A", 18)}}}, b = {{{bits("B", 18)}}}; reg [17:0] x, y; reg [35:0] z;
  initial x = 0;
  initial y = 0;
  initial z = 0;
  wire [17:0] f = REG_INPUTA_CLK == "CLK0" ? x : a, g = REG_INPUTB_CLK == "CLK1" ? y : b;
  wire [35:0] p = {{f & g, f ^ g}};
  always @(posedge CLK0) if (RST0) x <= 0; else if (CE0) x <= a;
  always @(posedge CLK1) if (RST1) y <= 0; else if (CE1) y <= b;
  always @(posedge CLK2) if (RST2) z <= 0; else if (CE2) z <= p;
  assign {{{bits("P", 36)}}} = REG_OUTPUT_CLK == "CLK2" ? z : p;
endmodule
"""


REGISTERS = ("INPUTA", "INPUTB", "OUTPUT")
RAM_PARAMETERS = (
    *("CLKAMUX", "CLKBMUX", "CSDECODE_A", "CSDECODE_B", "GSR", "RESETMODE", "ASYNC_RESET_RELEASE"),
    *("WRITEMODE_A", "WRITEMODE_B", "INIT_DATA"),
)


def prove_equal(folder: Path, before: dict[str, Any], after: dict[str, Any], *, gated: bool, steps: int = 7) -> None:
    for name, netlist in (("before", before), ("after", after)):
        (folder / f"{name}.json").write_text(json.dumps({"modules": {name: netlist["modules"]["top"]}}))
    (folder / "models.v").write_text(models(gated))
    script = "".join(
        "read_verilog -overwrite +/ecp5/cells_sim.v\ndelete DP16KD MULT18X18D\nread_verilog models.v\n"
        f"read_json {name}.json\nhierarchy -top {name}\nproc\nflatten\nmemory_map\nopt_clean\n"
        f"design -stash {name}\n"
        for name in ("before", "after")
    )
    yosys(
        f"{script}design -copy-from before before\ndesign -copy-from after after\n"
        "miter -equiv -flatten -make_outputs before after both\nhierarchy -top both\nopt -full\nasync2sync\n"
        f"sat -verify -seq {steps} -set-init-zero -prove trigger 0 -show-inputs both\n",
        cwd=folder,
        name=f"equal{int(gated)}",
    )


READS = {
    "both": "if (re) word <= rows[r]; if (oe) q <= word;",
    "always": "word <= rows[r]; q <= word;",
    "gated": "if (re) begin word <= rows[r]; q <= word; end",
}
WORKS = {
    "plain": "x <= a; y <= b; q <= p;",
    "enable": "if (oe) begin x <= a; y <= b; end q <= p;",
    "reset": "x <= rst ? 0 : a; y <= b; if (oe) q <= p;",
    "chain": "x <= a; y <= x; q <= p;",
}


@pytest.mark.parametrize("width", [18, 36])
@pytest.mark.parametrize("kind", ["always", "gated"])
def test_register_behind_a_block_ram_moves_into_it(tmp_path: Path, kind: str, width: int) -> None:
    before = mapped(tmp_path, memory(READS[kind], width=width))
    after = json.loads(json.dumps(before))
    done = fold(after, "top")
    assert done.ports == {"DP16KD.DO": 1}
    assert done.flip_flops == width
    (ram,) = (cell for cell in after["modules"]["top"]["cells"].values() if cell["type"] == "DP16KD")
    modes = {ram["parameters"][f"REGMODE_{side}"] for side in ("AB" if width == 36 else "B")}
    assert modes == {"OUTREG"}
    assert not any(cell["type"] == "TRELLIS_FF" for cell in after["modules"]["top"]["cells"].values())
    for gated in (False, True):
        prove_equal(tmp_path, before, after, gated=gated)


@pytest.mark.parametrize("work", WORKS)
def test_registers_around_a_multiplier_move_into_it(tmp_path: Path, work: str) -> None:
    before = mapped(tmp_path, product(WORKS[work]))
    after = json.loads(json.dumps(before))
    done = fold(after, "top")
    assert done.ports == {"MULT18X18D.A": 1, "MULT18X18D.B": 1, "MULT18X18D.P": 1}
    prove_equal(tmp_path, before, after, gated=False)


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        (memory(READS["both"]), "DP16KD.DO", "another enable"),
        (memory("word <= rows[r]; q <= rst ? 0 : word;"), "DP16KD.DO", "a reset"),
        (memory("word <= rows[r]; q <= word;", "assign s = word[7:0];"), "DP16KD.DO", "more than one reader"),
        (memory("word <= rows[r]; q <= word ^ d;"), "DP16KD.DO", "no flip-flop behind it"),
        (memory("word <= rows[r]; q[8:0] <= word; if (oe) q[35:9] <= word[35:9];"), "DP16KD.DO",
         "different clocks, enables or resets"),
        (product("x <= a ^ 1; y <= b; q <= p + a;"), "MULT18X18D.P", "no flip-flop behind it"),
        (product("x <= a; y <= b; if (oe) q <= p;", "initial q = 1;"), "MULT18X18D.P", "one at the start"),
        (product("x <= a; y <= b; if (rst) q <= 0; else if (oe) q <= p;"), "MULT18X18D.P", "an enable and a reset"),
        (product("y <= b; q <= p;", "always @* x = a;"), "MULT18X18D.A", "no flip-flop before it"),
        (product("y <= b; q <= p;", "always @* x = a;"), "MULT18X18D.B", "none before the other factor"),
    ],
)  # fmt: skip
def test_what_is_not_alike_stays_outside(tmp_path: Path, source: str, kind: str, reason: str) -> None:
    done, _ = folded(tmp_path, source)
    assert done.refused[kind, reason] == 1
    assert kind not in done.ports


def test_flip_flop_with_another_reader_stays_beside_a_multiplier(tmp_path: Path) -> None:
    before = mapped(tmp_path, product(WORKS["plain"], "assign s = x;"))
    after = json.loads(json.dumps(before))
    done = fold(after, "top")
    assert (done.ports["MULT18X18D.A"], done.flip_flops) == (1, 16 + 32)
    prove_equal(tmp_path, before, after, gated=False)


def test_proof_notices_a_register_that_is_lost(tmp_path: Path) -> None:
    before = mapped(tmp_path, memory(READS["always"]))
    after = json.loads(json.dumps(before))
    fold(after, "top")
    for cell in after["modules"]["top"]["cells"].values():
        if cell["type"] == "DP16KD":
            assert net(cell, "OCEB") == "1"
            cell["connections"]["OCEB"] = ["0"]
    with pytest.raises(ToolError, match="proof did fail"):
        prove_equal(tmp_path, before, after, gated=False)
