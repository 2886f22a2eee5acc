"""The issue stage: proofs."""

from sim.harness.formal import prove_all
from tb.dnp.formal_instruction_issue import PROOFS


def test_proofs() -> None:
    prove_all("dnp.instruction_issue", PROOFS)
