"""Every instruction does what the table says: proofs."""

from contracts.dnp.isa import INSTRUCTIONS
from sim.harness.formal import prove_all
from tb.dnp.formal_instructions import _FORMULAS, PROOFS

#: Rows that end in the issue stage; the bench of the core compares them with the golden machine.
_ISSUE_ONLY = {"NOP", "HALT", "JMP", "MOV.C", "SET", "BN", "BP", "BZ", "BNZ", "LOOP"}


def test_proofs() -> None:
    prove_all("dnp.instructions", PROOFS)


def test_no_row_is_left_out() -> None:
    assert {row.name for row in INSTRUCTIONS} == _ISSUE_ONLY | set(_FORMULAS)
