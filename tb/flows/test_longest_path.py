"""The path that bounds a clock."""

import json
from pathlib import Path

from scripts.flows.longest_path import longest_path


def _step(kind: str, delay: float, start: str, end: str) -> dict[str, object]:
    return {"type": kind, "delay": delay, "from": {"cell": start}, "to": {"cell": end}}


def test_only_paths_between_registers_count(tmp_path: Path) -> None:
    steps = [
        _step("clk-to-q", 0.5, "block.pe.taken_TRELLIS_FF_Q_13", "block.pe.taken_TRELLIS_FF_Q_13"),
        _step("routing", 1.25, "block.pe.taken_TRELLIS_FF_Q_13", "block.pe.taken_TRELLIS_FF_Q_DI_LUT4_Z"),
        _step("logic", 0.25, "block.pe.taken_TRELLIS_FF_Q_DI_LUT4_Z", "block.pe.taken_TRELLIS_FF_Q_DI_LUT4_Z"),
        _step("routing", 2.0, "block.pe.taken_TRELLIS_FF_Q_DI_LUT4_Z", "block.pe.sums.0.0"),
        _step("setup", 0.5, "block.pe.sums.0.0", "block.pe.sums.0.0"),
    ]
    reset = {"from": "<async>", "to": "posedge clk", "path": [_step("routing", 9.0, "rst", "reset")]}
    report = tmp_path / "report.json"
    report.write_text(
        json.dumps({"critical_paths": [reset, {"from": "posedge clk", "to": "posedge clk", "path": steps}]})
    )
    assert longest_path(report) == "pe.taken → pe.sums: 4.5 ns, 3.2 in wires"


def test_a_design_that_is_not_routed_has_none(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert longest_path(report) is None
    report.write_text(json.dumps({"critical_paths": []}))
    assert longest_path(report) is None
