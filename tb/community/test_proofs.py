"""Proofs of the community processor's blocks."""

from sim.harness.formal import prove_all
from tb.community.formal_halo_gate import PROOFS as HALO_GATE
from tb.community.formal_load_sequencer import PROOFS as LOAD_SEQUENCER
from tb.community.formal_record_gate import PROOFS as RECORD_GATE
from tb.community.formal_row_progress import PROOFS as ROW_PROGRESS
from tb.community.formal_scanner import PROOFS as SCANNER
from tb.community.formal_vector_marks import PROOFS as VECTOR_MARKS


def test_halo_gate_proofs() -> None:
    prove_all("halo_gate", HALO_GATE)


def test_load_sequencer_proofs() -> None:
    prove_all("load_sequencer", LOAD_SEQUENCER)


def test_record_gate_proofs() -> None:
    prove_all("record_gate", RECORD_GATE)


def test_row_progress_proofs() -> None:
    prove_all("row_progress", ROW_PROGRESS)


def test_scanner_proofs() -> None:
    prove_all("scanner", SCANNER)


def test_vector_marks_proofs() -> None:
    prove_all("vector_marks", VECTOR_MARKS)
