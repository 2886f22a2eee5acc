"""Names of a machine's memory ports: ``m_axi``, and ``m_axi_1`` and so on where it has several to the same memory."""

from collections.abc import Collection
from itertools import count, takewhile

__all__ = ["sharing", "signals_of"]


def sharing(prefix: str, names: Collection[str]) -> list[str]:
    """Return the prefixes of all ports to the same memory: `prefix`, then those with a number behind it, from 1 on.

    Parameters
    ----------
    prefix
        Of the first port.
    names
        All ports of a top level.
    """
    further = (f"{prefix}_{n}" for n in count(1))
    return [prefix, *takewhile(lambda other: {f"{other}_araddr", f"{other}_awaddr"} & set(names), further)]


def signals_of(prefix: str, names: Collection[str]) -> list[str]:
    """Return the `names` of the signals of one port; those of a port with a number behind `prefix` are another's."""
    mine = (name for name in names if name.startswith(f"{prefix}_"))
    return [name for name in mine if not name.removeprefix(f"{prefix}_")[0].isdigit()]
