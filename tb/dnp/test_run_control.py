"""Run control: proved; whole runs are in `test_board.py`."""

from sim.harness.formal import prove_all
from tb.dnp.formal_run_control import PROOFS


def test_run_control_proofs() -> None:
    prove_all("dnp.run_control", PROOFS)
