"""Paths of designs that are not placed."""

import json
from pathlib import Path

import pytest

from scripts.blocks import find
from scripts.flows.logic_paths import LogicPath, logic_paths, paths_of
from scripts.flows.yosys import yosys

DESIGN = """
module top(input clk, input [15:0] a, input [15:0] b, output reg o);
  reg [15:0] far, near; reg [9:0] at, put; reg [15:0] rows [0:1023]; reg [15:0] row; reg odd;
  wire [15:0] sum = far + near;
  always @(posedge clk) begin
    far <= a; near <= b; at <= a; put <= b; row <= rows[at]; rows[put] <= near;
    EXTRA
  end
endmodule
"""


def longest(folder: Path, extra: str) -> list[LogicPath]:
    (folder / "top.v").write_text(DESIGN.replace("EXTRA", extra))
    yosys("read_verilog top.v\nsynth_ecp5 -top top -no-rw-check -nowidelut\nwrite_json top.json\n", cwd=folder)
    return logic_paths(json.loads((folder / "top.json").read_text()), "top", 20)


def test_a_path_is_as_long_as_its_cells_and_wires(tmp_path: Path) -> None:
    paths = {(path.start, path.end): path for path in longest(tmp_path, "odd <= far[0] & near[0]; o <= odd;")}
    single = next(path for (start, end), path in paths.items() if start in ("far", "near") and end == "odd")
    # A flip-flop, a wire to one or two readers, a LUT, and a wire.
    assert single.levels == 1
    assert single.delay == pytest.approx(0.5 + 0.7 + 0.24 + 0.7, abs=0.3)


def test_a_carry_chain_is_one_level_and_a_late_memory_is_late(tmp_path: Path) -> None:
    first, *_ = longest(tmp_path, "odd <= ^row ^ ^(sum & {16{odd}}); o <= odd;")
    assert (first.start, first.end) == ("row", "odd")
    # Sixteen bits of memory and as many of a sum: the memory's word comes 5.8 ns after the clock.
    assert first.levels in (2, 3)
    assert first.delay > 5.8 + 2 * 0.94
    slow, *_ = longest(tmp_path, "odd <= sum[15] & odd; o <= odd ^ row[0];")
    assert slow.delay < first.delay


def test_longest_first_and_not_more_than_asked_for() -> None:
    paths = paths_of(find("stream.queue")[0], 3)
    assert len(paths) == 3
    assert [path.delay for path in paths] == sorted((path.delay for path in paths), reverse=True)
    assert all(path.levels >= 0 and path.start and path.end for path in paths)
