"""Command reader: checks the image's header and prefetches its command list."""

from typing import NamedTuple

from amaranth import Cat, Elaboratable, Module, Signal, unsigned
from amaranth.hdl import ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, COMMANDS, COMPLETION, HEADER, LINE_BYTES, MAGIC, VERSION, Error, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.fetcher import Fetcher
from hw.memory.formats import ReadBeat, ReadRequest, line_address_width

__all__ = ["COMMANDS_AHEAD", "CommandReader"]

#: Command prefetch depth of a chiplet: about one layer.
COMMANDS_AHEAD = 4


class _Line(NamedTuple):
    """The line in turn, also seen as a header.

    ``there``: it is whole. ``failed``: a beat of it could not be read. ``take``: it is used.
    """

    bits: Signal
    header: data.View
    there: Signal
    failed: Signal
    take: Signal


class _Prefetch(NamedTuple):
    """Lines requested ahead.

    ``following``: line to request next, with ``asks``. ``list_end``, ``end``: where the command list ends, relative to
    the image and in memory. ``listing``: commands are prefetched. ``owed``: lines requested whose command is not done;
    ``done`` removes one.
    """

    following: Signal
    list_end: Signal
    end: Signal
    asks: Signal
    listing: Signal
    owed: Signal
    done: Signal


class CommandReader(wiring.Component):
    """Runs an image: header, then each command, and one completion at the end or at the first error.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    ahead
        Command prefetch depth, at least 1. With 1, a command is read after the previous one is answered.

    Attributes
    ----------
    i : stream of line addresses
        First line of an image; taken when the previous run has completed.
    base : Out
        Line address of the current image.
    scratch : Out, scratches : Out(1)
        Line address of what a scratchpad keeps of it, and whether it keeps anything; constant from the first command
        of a run to the first of the next.
    command : stream of unsigned(512)
        Commands as they lie in the image.
    executed : stream of `ErrorReport`
        Answers a command; code 0 if nothing failed.
    o : stream of `COMPLETION`
        ``MEMORY_READ`` of the header or the list; ``BAD_MAGIC``; ``BAD_VERSION``; ``BAD_OPERAND`` with the length of
        a list that ends past the image or the address space; or the error of `executed`.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, ahead: int = 1) -> None:
        if ahead < 1:
            raise ValueError(f"ahead must be at least 1, not {ahead!r}")
        self.address_width, self.data_width, self.ahead = address_width, data_width, ahead
        line = unsigned(line_address_width(address_width))
        super().__init__(
            {
                "i": In(stream.Signature(line)),
                "base": Out(line),
                "scratch": Out(line),
                "scratches": Out(1),
                "command": Out(stream.Signature(unsigned(8 * COMMAND_BYTES))),
                "executed": In(stream.Signature(ErrorReport)),
                "o": Out(stream.Signature(struct(COMPLETION))),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Prefetch lines and take them in turn: the header first, then a command each."""
        m = Module()
        beats = 8 * LINE_BYTES // self.data_width
        m.submodules.fetcher = fetcher = Fetcher(self.address_width, self.data_width, max(16, beats * self.ahead))
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)

        line = Signal(8 * LINE_BYTES, reset_less=True)
        there, failed, take = Signal(), Signal(), Signal()
        header = data.View(struct(HEADER), line)
        # The list's end relative to the image's first line, and in the memory, where it may be the end of the port.
        list_end = Signal.like(header.command_list + header.commands, reset_less=True)
        end = Signal.like(self.base + list_end, reset_less=True)
        following, asks, listing = Signal.like(self.base), Signal(), Signal()
        owed, done = Signal(range(self.ahead + 1)), Signal()
        current = _Line(line, header, there, failed, take)
        prefetch = _Prefetch(following, list_end, end, asks, listing, owed, done)
        m.d.comb += [
            fetcher.i.payload.address.eq(following << exact_log2(beats)),
            fetcher.i.payload.length.eq(beats - 1),
            fetcher.i.valid.eq(asks),
            fetcher.o.ready.eq(~there),
            self.command.payload.eq(line),
        ]
        # The state machine's assignments come last and win.
        m.d.sync += owed.eq(owed + (asks & fetcher.i.ready) - done)
        with m.If(~asks):
            m.d.sync += asks.eq(listing & (following != end[: len(following)]) & (owed != self.ahead))
        with m.Elif(fetcher.i.ready):
            m.d.sync += [asks.eq(0), following.eq(following + 1)]
        with m.If(take):
            m.d.sync += [there.eq(0), failed.eq(0)]
        with m.Elif(fetcher.o.valid & fetcher.o.ready):
            m.d.sync += [
                line.eq(Cat(line, fetcher.o.payload.data)[self.data_width :]),
                there.eq(fetcher.o.payload.last),
                failed.eq(failed | fetcher.o.payload.error),
            ]
        self._control(m, current, prefetch)
        return m

    def _control(self, m: Module, line: _Line, prefetch: _Prefetch) -> None:
        """Check the header, hand over each command and wait for its answer, complete."""
        at = Signal.like(self.base)  # address of the line in turn
        in_header = Signal()
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                start = self.i.payload
                m.d.sync += [self.base.eq(start), at.eq(start), prefetch.following.eq(start), self.o.payload.eq(0)]
                with m.If(self.i.valid):
                    m.d.sync += [in_header.eq(1), prefetch.asks.eq(1)]
                    m.next = "CHECK"
            with m.State("CHECK"):
                self._check(m, line, prefetch, at, in_header)
            with m.State("NEXT"):
                m.d.sync += in_header.eq(0)
                # The sums are compared a cycle after they are formed: in one cycle they are a chiplet's longest path.
                # Without this check, zeros behind a list that claims to be longer would be executed as NOPs.
                outside = (prefetch.list_end > line.header.lines) | (prefetch.end > 1 << len(at))
                with m.If(in_header & outside):
                    self._fail(m, prefetch, Error.BAD_OPERAND, line.header.commands)
                with m.Elif(at == prefetch.end[: len(at)]):
                    m.next = "COMPLETE"
                with m.Else():
                    with m.If(in_header):
                        m.d.sync += [prefetch.listing.eq(1), prefetch.asks.eq(1)]
                    m.next = "CHECK"
            with m.State("EXECUTE"):
                m.d.comb += [self.command.valid.eq(1), line.take.eq(self.command.ready)]
                with m.If(self.command.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += [self.executed.ready.eq(1), prefetch.done.eq(self.executed.valid)]
                with m.If(self.executed.valid):
                    m.d.sync += at.eq(at + COMMAND_BYTES // LINE_BYTES)
                    m.next = "NEXT"
                    with m.If(self.executed.payload.code != Error.NONE):
                        self._fail(m, prefetch, self.executed.payload.code, self.executed.payload.info)
            with m.State("COMPLETE"):
                # Prefetched lines are drained before completion.
                m.d.comb += [line.take.eq(line.there), prefetch.done.eq(line.there)]
                m.d.comb += self.o.valid.eq(~prefetch.asks & (prefetch.owed == 0))
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += prefetch.listing.eq(0)
                    m.next = "IDLE"

    def _check(self, m: Module, line: _Line, prefetch: _Prefetch, at: Signal, in_header: Signal) -> None:
        """Wait for the line in turn; check it if it is the header, or latch the tags of the command that it holds."""
        header, completion = line.header, self.o.payload
        command = data.View(struct(COMMANDS[Opcode.NOP]), line.bits)
        m.d.comb += [line.take.eq(line.there & (in_header | line.failed)), prefetch.done.eq(line.take)]
        with m.If(in_header):
            list_start = self.base + header.command_list
            m.d.sync += [
                prefetch.list_end.eq(header.command_list + header.commands),
                prefetch.end.eq(list_start + header.commands),
                self.scratch.eq(self.base + header.scratch),
                self.scratches.eq(header.scratch != 0),
            ]
            with m.If(line.there):
                m.d.sync += [at.eq(list_start), prefetch.following.eq(list_start)]
        with m.If(line.there):
            with m.If(line.failed):
                self._fail(m, prefetch, Error.MEMORY_READ, at)
            with m.Elif(~in_header):
                m.d.sync += [completion.layer.eq(command.layer), completion.tag.eq(command.tag)]
                m.next = "EXECUTE"
            with m.Elif(header.magic != MAGIC):
                self._fail(m, prefetch, Error.BAD_MAGIC, header.magic)
            with m.Elif(header.version != VERSION):
                self._fail(m, prefetch, Error.BAD_VERSION, header.version)
            with m.Else():
                m.next = "NEXT"

    def _fail(self, m: Module, prefetch: _Prefetch, code: ValueLike, info: ValueLike) -> None:
        """Complete with an error; nothing more is prefetched."""
        m.d.sync += [self.o.payload.error.eq(code), self.o.payload.info.eq(info), prefetch.listing.eq(0)]
        m.next = "COMPLETE"
