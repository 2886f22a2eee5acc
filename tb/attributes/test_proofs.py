"""Proofs of the attribute RAM's parts."""

from sim.harness.formal import prove_all
from tb.attributes import formal_attribute_cache, formal_id_table, formal_row_store


def test_id_table_proofs() -> None:
    prove_all("attributes.id_table", formal_id_table.PROOFS)


def test_attribute_cache_proofs() -> None:
    prove_all("attributes.attribute_cache", formal_attribute_cache.PROOFS)


def test_row_store_proofs() -> None:
    prove_all("attributes.row_store", formal_row_store.PROOFS)
