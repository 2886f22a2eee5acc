"""Proofs of the community processor's blocks."""

from tb.community.formal_scanner import PROOFS as SCANNER
from tb.harness.formal import prove_all


def test_scanner_proofs() -> None:
    prove_all("scanner", SCANNER)
