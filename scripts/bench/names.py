"""Which data sets a benchmark runs on."""

import os
from collections.abc import Sequence

__all__ = ["named"]


def named(names: Sequence[str] | None, *others: str) -> list[str]:
    """Return `names`; without any, Cora where `ATOLL_PLANETOID` names its folder, then `others`."""
    if names is not None:
        return list(names)
    folder = os.environ.get("ATOLL_PLANETOID")
    return [*([f"planetoid:{folder}/cora"] if folder else []), *others]
