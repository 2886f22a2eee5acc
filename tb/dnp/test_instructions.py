"""Every instruction does what the table says: proofs."""

from golden.dnp.isa import INSTRUCTIONS
from tb.dnp.formal_instructions import _FORMULAS, PROOFS
from tb.harness.formal import prove_all

#: Rows that end in the issue stage; the bench of the core compares them with the golden machine.
_ISSUE_ONLY = {"NOP", "HALT", "JMP", "MOV.C", "SET", "BN", "BP", "BZ", "BNZ", "LOOP"}


def test_proofs() -> None:
    prove_all("dnp.instructions", PROOFS)


def test_no_row_is_left_out() -> None:
    assert {row.name for row in INSTRUCTIONS} == _ISSUE_ONLY | set(_FORMULAS)
