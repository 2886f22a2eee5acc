"""Buffer board: what G-buses see, proved; whole arrays behind it are in `test_board.py`."""

from sim.harness.formal import prove_all
from tb.dnp.formal_buffer_board import PROOFS


def test_buffer_board_proofs() -> None:
    prove_all("dnp.buffer_board", PROOFS)
