"""Proofs of the locator's arbitration."""

import gc

import pytest

from hw.locator.bank_arbiter import BankArbiter
from hw.locator.collector import Collector
from hw.locator.config import LocatorConfig
from sim.harness.formal import prove_all
from tb.locator import (
    formal_bank_arbiter,
    formal_collector,
    formal_column_table,
    formal_degree_lists,
    formal_dispatcher,
    formal_resolver,
    formal_state_pager,
    formal_task_generator,
)


def test_bank_arbiter_proofs() -> None:
    prove_all("bank_arbiter", formal_bank_arbiter.PROOFS)


def test_resolver_proofs() -> None:
    prove_all("resolver", formal_resolver.PROOFS)


def test_column_table_proofs() -> None:
    prove_all("column_table", formal_column_table.PROOFS)


def test_degree_lists_proofs() -> None:
    prove_all("degree_lists", formal_degree_lists.PROOFS)


def test_collector_proofs() -> None:
    prove_all("collector", formal_collector.PROOFS)


def test_task_generator_proofs() -> None:
    prove_all("task_generator", formal_task_generator.PROOFS)


def test_dispatcher_proofs() -> None:
    prove_all("dispatcher", formal_dispatcher.PROOFS)


def test_state_pager_proofs() -> None:
    prove_all("state_pager", formal_state_pager.PROOFS)


@pytest.mark.parametrize(
    ("requesters", "banks", "message"), [(0, 2, "requesters must be at least 1"), (2, 0, "banks must be at least 1")]
)
def test_bank_arbiter_refuses(requesters: int, banks: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BankArbiter(requesters, banks)
    gc.collect()  # the half-made component, while warnings about it are let pass


def test_collector_refuses() -> None:
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        Collector(LocatorConfig(), 0)
    gc.collect()
