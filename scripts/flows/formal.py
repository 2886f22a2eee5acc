"""`atoll formal`: the proofs of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scripts.blocks import Block
from scripts.flows.table import show
from sim.harness.formal import Verdict, check


def formal(blocks: Iterable[Block]) -> Iterator[tuple[Block, Verdict]]:
    """Run every proof of `blocks`, one after the other.

    Yields
    ------
    tuple of Block and Verdict
        One for each proof, when it is done.
    """
    for block in blocks:
        for proof in block.proofs():
            yield block, check(block.module, proof)


def report(verdicts: Iterable[tuple[Block, Verdict]]) -> bool:
    """Print a table of `verdicts` and why the failed ones failed; return whether all hold."""
    done = list(verdicts)
    show(
        "formal proofs",
        ["block", "proof", "mode", "depth", "holds", "seconds"],
        [(b.name, v.proof.name, v.proof.mode, v.proof.depth, v.passed, v.seconds) for b, v in done],
    )
    for block, verdict in done:
        if not verdict.passed:
            print(f"{block.name} {verdict.proof.name}: {verdict.message}\n  log in {verdict.directory}")
    return all(verdict.passed for _, verdict in done)
