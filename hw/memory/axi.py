"""AXI4 interfaces under their AMBA names.

Inside the design an AXI4 port is one member with a signature, so that ``wiring.connect`` works on it.
At the top level every signal is a port of its own, because tools and verification parts recognise
``m_axi_araddr`` and Amaranth would join the names of a nested interface with two underscores.
`flat_members` and `connect_flat` are the way from the one form to the other; they work for any
signature of plain signals (AXI4, AXI4-Lite, AXI4-Stream).
"""

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

__all__ = [
    "ATTRIBUTES",
    "AXI4ReadSignature",
    "AXI4Signature",
    "AXI4WriteSignature",
    "Burst",
    "Response",
    "beat_size",
    "connect_flat",
    "connect_manager",
    "constant_members",
    "drive_constants",
    "flat_members",
]


#: Signals of an address channel that are constant at the top level, with width and value: normal accesses, to memory
#: that may be buffered and not cached, of no priority. AxPROT is 0 inside already: unprivileged, secure, data.
ATTRIBUTES: dict[str, tuple[int, int]] = {"lock": (1, 0), "cache": (4, 0b0011), "qos": (4, 0)}


class Burst(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Addresses in a burst (AxBURST)."""

    #: Every beat at the same address.
    FIXED = 0
    #: Every beat at the next address.
    INCR = 1
    #: As INCR, wrapping at the burst's size.
    WRAP = 2


class Response(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Response to a transfer (RRESP, BRESP); bit 1 is set for errors."""

    #: Success.
    OKAY = 0
    #: Success of an exclusive access.
    EXOKAY = 1
    #: The subordinate failed.
    SLVERR = 2
    #: No subordinate has the address.
    DECERR = 3


def beat_size(data_width: int) -> int:
    """AxSIZE of beats as wide as the data bus: log2 of their bytes.

    Parameters
    ----------
    data_width
        Width of the data bus, in bits.
    """
    return exact_log2(data_width // 8)


def _address_channel(prefix: str, address_width: int, id_width: int) -> dict[str, wiring.Member]:
    return {
        f"{prefix}id": Out(id_width),
        f"{prefix}addr": Out(address_width),
        f"{prefix}len": Out(8),
        f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2),
        f"{prefix}prot": Out(3),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


def _read_members(address_width: int, data_width: int, id_width: int) -> dict[str, wiring.Member]:
    return _address_channel("ar", address_width, id_width) | {
        "rid": In(id_width),
        "rdata": In(data_width),
        "rresp": In(2),
        "rlast": In(1),
        "rvalid": In(1),
        "rready": Out(1),
    }


def _write_members(address_width: int, data_width: int, id_width: int) -> dict[str, wiring.Member]:
    return _address_channel("aw", address_width, id_width) | {
        "wdata": Out(data_width),
        "wstrb": Out(data_width // 8),
        "wlast": Out(1),
        "wvalid": Out(1),
        "wready": In(1),
        "bid": In(id_width),
        "bresp": In(2),
        "bvalid": In(1),
        "bready": Out(1),
    }


class AXI4ReadSignature(wiring.Signature):
    """AR and R channels, seen by the manager.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    data_width
        Width of a beat, in bits.
    id_width
        Width of IDs, in bits, at least 1.
    """

    def __init__(self, address_width: int, data_width: int, id_width: int = 1) -> None:
        super().__init__(_read_members(address_width, data_width, id_width))


class AXI4WriteSignature(wiring.Signature):
    """AW, W and B channels, seen by the manager.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    data_width
        Width of a beat, in bits.
    id_width
        Width of IDs, in bits, at least 1.
    """

    def __init__(self, address_width: int, data_width: int, id_width: int = 1) -> None:
        super().__init__(_write_members(address_width, data_width, id_width))


class AXI4Signature(wiring.Signature):
    """All five channels, seen by the manager.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    data_width
        Width of a beat, in bits.
    id_width
        Width of IDs, in bits, at least 1.
    """

    def __init__(self, address_width: int, data_width: int, id_width: int = 1) -> None:
        super().__init__(
            _read_members(address_width, data_width, id_width) | _write_members(address_width, data_width, id_width)
        )


def flat_members(prefix: str, member: wiring.Member) -> dict[str, wiring.Member]:
    """Members ``{prefix}_{signal}`` for every signal of a signature, for the ports of a top level.

    Parameters
    ----------
    prefix
        Name of the interface, such as ``m_axi``.
    member
        ``Out(signature)`` for a manager or source, ``In(signature)`` for a subordinate or sink.

    Returns
    -------
    dict
        Members to pass to ``wiring.Component.__init__``.
    """
    return {f"{prefix}_{name}": signal for name, signal in member.signature.members.items()}


def connect_flat(m: Module, component: Any, prefix: str, interface: Any) -> None:
    """Connect an inner interface to the component's own ports made by `flat_members`.

    Parameters
    ----------
    m
        Module of the component.
    component
        The component that has the ports.
    prefix
        Name of the interface.
    interface
        The inner interface; it may have a part of the signals only, so that a reader and a writer
        share one port.
    """
    for name, member in interface.signature.members.items():
        outer, inner = getattr(component, f"{prefix}_{name}"), getattr(interface, name)
        if member.flow == Out:
            m.d.comb += Value.cast(outer).eq(inner)
        else:
            m.d.comb += Value.cast(inner).eq(outer)


def constant_members(prefix: str) -> dict[str, wiring.Member]:
    """Members for the constant signals of both address channels, for the ports of a top level.

    Parameters
    ----------
    prefix
        Name of the interface, such as ``m_axi``.
    """
    return {
        f"{prefix}_{channel}{name}": Out(width) for channel in ("ar", "aw") for name, (width, _) in ATTRIBUTES.items()
    }


def drive_constants(m: Module, component: Any, prefix: str) -> None:
    """Drive the component's own ports made by `constant_members`."""
    for channel in ("ar", "aw"):
        m.d.comb += [getattr(component, f"{prefix}_{channel}{name}").eq(v) for name, (_, v) in ATTRIBUTES.items()]


def connect_manager(m: Module, manager: Any, port: Any) -> None:
    """Connect a manager to a port that has at least as many bits of IDs, the upper ones of which are 0.

    Parameters
    ----------
    m
        Module that both belong to.
    manager
        Interface of a manager; it may have a part of the signals only, so that a reader and a writer share one port.
    port
        Interface of `AXI4Signature`, seen by the subordinate.
    """
    for name, member in manager.signature.members.items():
        outer, inner = getattr(port, name), getattr(manager, name)
        if member.flow == Out:
            m.d.comb += outer.eq(inner)
        else:
            m.d.comb += inner.eq(outer)
