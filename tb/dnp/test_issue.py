"""The issue stage: proofs."""

from tb.dnp.formal_issue import PROOFS
from tb.harness.formal import prove_all


def test_proofs() -> None:
    prove_all("dnp.issue", PROOFS)
