"""Formats of a window: lines of the address space behind which a unit hands out beats instead of memory."""

from amaranth import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import BURST_BEATS, CLIENTS_MAX, beat_address_width, line_address_width

__all__ = ["WindowBeat", "WindowRead", "window_members"]


class WindowRead(data.StructLayout):
    """A burst to read: ``address`` of its first beat, ``length``: beats - 1, and whose it is."""

    def __init__(self, address_width: int, data_width: int) -> None:
        super().__init__(
            {
                "address": beat_address_width(address_width, data_width),
                "length": range(BURST_BEATS),
                "client": range(CLIENTS_MAX),
            }
        )


class WindowBeat(data.StructLayout):
    """A beat that was read, as a `hw.memory.formats.ReadBeat`, and whose it is."""

    def __init__(self, data_width: int) -> None:
        super().__init__({"data": data_width, "error": 1, "last": 1, "client": range(CLIENTS_MAX)})


def window_members(address_width: int, data_width: int) -> dict[str, wiring.Member]:
    """Return the ports of the unit behind a window.

    ``first``, ``end``: lines of the window, from ``first`` up to before ``end``; none if they are equal. They change
    while nobody reads there. ``reads``: bursts, of one client at a time. ``beats``: answers, in their order.
    """
    line = unsigned(line_address_width(address_width))
    return {
        "first": Out(line),
        "end": Out(line),
        "reads": In(stream.Signature(WindowRead(address_width, data_width))),
        "beats": Out(stream.Signature(WindowBeat(data_width), always_ready=True)),
    }
