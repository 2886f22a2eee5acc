"""Scratchpad: the last lines of an image, kept on the chip instead of in memory."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import LINE_BYTES
from hw.block_memory import NO_BYPASS, registered_read
from hw.memory.formats import BURST_BEATS, CLIENTS_MAX, check_port
from hw.stream.arbiter import merge

__all__ = ["ScratchBeat", "ScratchRead", "ScratchWrite", "Scratchpad"]


class ScratchRead(data.StructLayout):
    """A burst to read: ``address`` of its first beat in the scratchpad, ``length``: beats - 1, and whose it is."""

    def __init__(self, lines: int, data_width: int) -> None:
        super().__init__(
            {"address": range(_beats(lines, data_width)), "length": range(BURST_BEATS), "client": range(CLIENTS_MAX)}
        )


class ScratchBeat(data.StructLayout):
    """A beat that was read; ``last``: the last one of its burst."""

    def __init__(self, data_width: int) -> None:
        super().__init__({"data": data_width, "last": 1, "client": range(CLIENTS_MAX)})


class ScratchWrite(data.StructLayout):
    """A beat to write, as `hw.memory.formats.WriteRequest`; ``address`` counts from the start of the scratchpad."""

    def __init__(self, lines: int, data_width: int) -> None:
        super().__init__({"address": range(_beats(lines, data_width)), "data": data_width, "strobe": data_width // 8})


def _beats(lines: int, data_width: int) -> int:
    return lines * LINE_BYTES * 8 // data_width


class Scratchpad(wiring.Component):
    """One memory for all units of a chiplet: a beat is read and a beat is written in every cycle.

    Bursts of different units come in turn and are answered in the order in which they are taken, the first beat three
    cycles later. What a unit has written is read by every burst that is asked for while its `busy` is 0, and a
    beat by those that are asked for three cycles after it was taken, or later.

    Parameters
    ----------
    lines
        Its size, in lines of 64 bytes, a power of two.
    data_width
        Width of a beat, in bits.
    units
        How many units it has.

    Attributes
    ----------
    reads : streams of `ScratchRead`
        Of each unit; a burst ends within the memory.
    beats : streams of `ScratchBeat`, always ready
    writes : streams of `ScratchWrite`
    busy : Out(1) of each unit
        Beats of it are still to be written; from the cycle after they were taken.

    Raises
    ------
    ValueError
        If `lines` is no power of two, or there are no units.
    """

    def __init__(self, lines: int, data_width: int = 256, units: int = 1) -> None:
        check_port(32, data_width)
        if lines < 1 or lines & (lines - 1):
            raise ValueError(f"lines must be a power of two, not {lines!r}")
        if units < 1:
            raise ValueError(f"units must be at least 1, not {units!r}")
        self.lines, self.data_width, self.units = lines, data_width, units
        self._read, self._write = ScratchRead(lines, data_width), ScratchWrite(lines, data_width)
        super().__init__(
            {
                "reads": In(stream.Signature(self._read)).array(units),
                "beats": Out(stream.Signature(ScratchBeat(data_width), always_ready=True)).array(units),
                "writes": In(stream.Signature(self._write)).array(units),
                "busy": Out(1).array(units),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Write one of the units' beats; walk through one of their bursts."""
        m = Module()
        m.submodules.rows = rows = memory.Memory(
            shape=self.data_width, depth=_beats(self.lines, self.data_width), init=[], attrs=dict(NO_BYPASS)
        )
        self._store(m, rows.write_port(granularity=8))
        self._fetch(m, rows)
        return m

    def _store(self, m: Module, port: memory.WritePort) -> None:
        """Write from a register, since the memory is large."""
        words, word, unit = merge(m, "write_arbiter", list(map(wiring.flipped, self.writes)), self._write)
        held, valid, whose = Signal(self._write, reset_less=True), Signal(), Signal(range(max(2, self.units)))
        m.d.sync += [valid.eq(words.valid), held.eq(word), whose.eq(unit)]
        m.d.comb += [
            words.ready.eq(1),
            port.en.eq(Mux(valid, held.strobe, 0)),
            port.addr.eq(held.address),
            port.data.eq(held.data),
        ]
        for n, busy in enumerate(self.busy):
            m.d.comb += busy.eq((words.valid & (unit == n)) | (valid & (whose == n)))

    def _fetch(self, m: Module, rows: memory.Memory) -> None:
        """Read a beat a cycle; its register behind the memory's is one that synthesis folds into a block RAM."""
        bursts, burst, unit = merge(m, "read_arbiter", list(map(wiring.flipped, self.reads)), self._read)
        read = registered_read(m, rows)
        position, ends = Signal(range(BURST_BEATS)), Signal()
        m.d.comb += [
            ends.eq(position == burst.length),
            bursts.ready.eq(ends),
            read.addr.eq(burst.address + position),
        ]
        with m.If(bursts.valid):
            m.d.sync += position.eq(Mux(ends, 0, position + 1))
        asked = data.StructLayout({"unit": range(max(2, self.units)), "client": range(CLIENTS_MAX), "last": 1})
        under_way, given = Signal(asked, reset_less=True), Signal(asked, reset_less=True)
        beat, asks, gives = Signal(self.data_width, reset_less=True), Signal(), Signal()
        m.d.sync += [
            asks.eq(bursts.valid),
            under_way.unit.eq(unit),
            under_way.client.eq(burst.client),
            under_way.last.eq(ends),
            gives.eq(asks),
            given.eq(under_way),
            beat.eq(read.data),
        ]
        for n, port in enumerate(self.beats):
            m.d.comb += [
                port.valid.eq(gives & (given.unit == n)),
                port.payload.data.eq(beat),
                port.payload.client.eq(given.client),
                port.payload.last.eq(given.last),
            ]
