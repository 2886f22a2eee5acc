"""Balance of units by cycles at work: kinds, several chiplets, nothing at work."""

from scripts.flows.balance import balance, balance_rows
from scripts.flows.schema import Balance

PARTS = ("PE 0 multipliers", "PE 0 adders", "PE 1 multipliers", "PE 1 adders", "finisher")


def test_units_of_a_kind_are_compared_over_all_chiplets() -> None:
    first, second = [124, 1, 74, 2, 18], [320, 0, 320, 25, 45]
    found = balance(PARTS, [first, second])
    assert found == [
        Balance("PE multipliers", 4, 320, (124 + 74 + 640) / 4, 320 * 4 / 838),
        Balance("PE adders", 4, 25, 7.0, 25 / 7),
        Balance("finisher", 2, 45, 31.5, 45 / 31.5),
    ]
    assert [one.kind for one in balance(PARTS, [first])] == ["PE multipliers", "PE adders"]
    assert balance_rows(found[:2]) == [
        ("balance", "busiest PE multipliers 1.53 of the mean 210 cycles, busiest PE adders 3.57 of the mean 7 cycles")
    ]


def test_units_that_never_work_have_no_balance() -> None:
    found = balance(("PE 0", "PE 1"), [[0, 0]])
    assert found == []
    assert balance_rows(found) == balance_rows(None) == []
