"""Command reader: checks the image's header and reads its command list, ahead of what is carried out."""

from amaranth import Cat, Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, COMMANDS, COMPLETION, HEADER, LINE_BYTES, MAGIC, VERSION, Error, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.fetcher import Fetcher
from hw.memory.formats import ReadBeat, ReadRequest, line_address_width

__all__ = ["COMMANDS_AHEAD", "CommandReader"]

#: Commands that a chiplet asks for and has not yet answered: about those of a layer.
COMMANDS_AHEAD = 4


class CommandReader(wiring.Component):
    """Runs an image: header, then each command, and one completion at the end or at the first error.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    ahead
        Commands asked for and not yet answered, at least 1: with 1, a command is read when the one before it is done.

    Attributes
    ----------
    i : stream of line addresses
        Where an image lies; taken when the run before has completed.
    base : Out
        Line address of the image under way.
    command : stream of unsigned(512)
        Commands as they lie in the image.
    executed : stream of `ErrorReport`
        Answers a command; code 0 if nothing failed.
    o : stream of `COMPLETION`
        ``MEMORY_READ`` of the header or the list; ``BAD_MAGIC``; ``BAD_VERSION``; ``BAD_OPERAND`` with the length of
        a list that ends past the image or the address space; or what `executed` said.
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
                "command": Out(stream.Signature(unsigned(8 * COMMAND_BYTES))),
                "executed": In(stream.Signature(ErrorReport)),
                "o": Out(stream.Signature(struct(COMPLETION))),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the fetch of one line and the walk through the list."""
        m = Module()
        beats = 8 * LINE_BYTES // self.data_width
        m.submodules.fetcher = fetcher = Fetcher(self.address_width, self.data_width, max(16, beats * self.ahead))
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)

        # Lines: asked for one by one, put together from their beats, taken in turn. The FSM below has the last word.
        line = Signal(8 * LINE_BYTES, reset_less=True)
        there, failed = Signal(), Signal()  # it is whole; a beat of it could not be read
        take, done = Signal(), Signal()  # the line is used; its command is answered
        at, following = Signal.like(self.base), Signal.like(self.base)  # line in turn, line to ask for
        asks, listing, owed = Signal(), Signal(), Signal(range(self.ahead + 1))
        header = data.View(struct(HEADER), line)
        # Where the list ends: behind the image's first line, and in the memory, where it may end with the port.
        list_end = Signal.like(header.command_list + header.commands, reset_less=True)
        end = Signal.like(self.base + list_end, reset_less=True)
        m.d.comb += [
            fetcher.i.payload.address.eq(following << exact_log2(beats)),
            fetcher.i.payload.length.eq(beats - 1),
            fetcher.i.valid.eq(asks),
            fetcher.o.ready.eq(~there),
            self.command.payload.eq(line),
        ]
        m.d.sync += owed.eq(owed + (asks & fetcher.i.ready) - done)
        with m.If(~asks):
            m.d.sync += asks.eq(listing & (following != end[: len(at)]) & (owed != self.ahead))
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

        command = data.View(struct(COMMANDS[Opcode.NOP]), line)
        completion = self.o.payload

        def fail(code: Error, info: object) -> None:
            m.d.sync += [completion.error.eq(code), completion.info.eq(info), listing.eq(0)]
            m.next = "COMPLETE"

        in_header = Signal()
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                start = self.i.payload
                m.d.sync += [self.base.eq(start), at.eq(start), following.eq(start), completion.eq(0)]
                with m.If(self.i.valid):
                    m.d.sync += [in_header.eq(1), asks.eq(1)]
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [take.eq(there & (in_header | failed)), done.eq(take)]
                with m.If(in_header):
                    list_start = self.base + header.command_list
                    m.d.sync += [
                        list_end.eq(header.command_list + header.commands),
                        end.eq(list_start + header.commands),
                    ]
                    with m.If(there):
                        m.d.sync += [at.eq(list_start), following.eq(list_start)]
                with m.If(there):
                    with m.If(failed):
                        fail(Error.MEMORY_READ, at)
                    with m.Elif(~in_header):
                        m.d.sync += [completion.layer.eq(command.layer), completion.tag.eq(command.tag)]
                        m.next = "EXECUTE"
                    with m.Elif(header.magic != MAGIC):
                        fail(Error.BAD_MAGIC, header.magic)
                    with m.Elif(header.version != VERSION):
                        fail(Error.BAD_VERSION, header.version)
                    with m.Else():
                        m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += in_header.eq(0)
                # Sums are compared a cycle later: this is the longest path of a chiplet if it is one.
                # Without this, zeros behind a list that claims to be longer would be carried out as NOPs.
                with m.If(in_header & ((list_end > header.lines) | (end > 1 << len(at)))):
                    fail(Error.BAD_OPERAND, header.commands)
                with m.Elif(at == end[: len(at)]):
                    m.next = "COMPLETE"
                with m.Else():
                    with m.If(in_header):
                        m.d.sync += [listing.eq(1), asks.eq(1)]
                    m.next = "CHECK"
            with m.State("EXECUTE"):
                m.d.comb += [self.command.valid.eq(1), take.eq(self.command.ready)]
                with m.If(self.command.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += [self.executed.ready.eq(1), done.eq(self.executed.valid)]
                with m.If(self.executed.valid):
                    m.d.sync += at.eq(at + COMMAND_BYTES // LINE_BYTES)
                    m.next = "NEXT"
                    with m.If(self.executed.payload.code != Error.NONE):
                        fail(self.executed.payload.code, self.executed.payload.info)
            with m.State("COMPLETE"):
                # What was asked for ahead comes first, for nobody.
                m.d.comb += [take.eq(there), done.eq(there), self.o.valid.eq(~asks & (owed == 0))]
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += listing.eq(0)
                    m.next = "IDLE"
        return m
