"""The port: proofs."""

from tb.dnp.formal_port import PROOFS
from tb.harness.formal import prove_all


def test_proofs() -> None:
    prove_all("dnp.port", PROOFS)
