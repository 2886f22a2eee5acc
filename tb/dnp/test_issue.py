"""The issue stage: proofs."""

from sim.harness.formal import prove_all
from tb.dnp.formal_issue import PROOFS


def test_proofs() -> None:
    prove_all("dnp.issue", PROOFS)
