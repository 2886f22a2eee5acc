"""Command reader: checks the image's header and reads its command list, one command at a time."""

from amaranth import Cat, Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from golden.contracts import COMMAND_BYTES, COMMANDS, COMPLETION, HEADER, LINE_BYTES, MAGIC, VERSION, Error, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.fetcher import Fetcher
from hw.memory.formats import ReadBeat, ReadRequest, line_address_width

__all__ = ["CommandReader"]


class CommandReader(wiring.Component):
    """Runs an image: header, then each command, and one completion at the end or at the first error.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

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

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self.address_width, self.data_width = address_width, data_width
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
        m.submodules.fetcher = fetcher = Fetcher(self.address_width, self.data_width, 16)
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)

        beats = 8 * LINE_BYTES // self.data_width
        line = Signal(8 * LINE_BYTES)
        failed = Signal()  # a beat of the line could not be read
        at = Signal.like(self.base)  # line under way
        m.d.comb += [
            fetcher.i.payload.address.eq(at << exact_log2(beats)),
            fetcher.i.payload.length.eq(beats - 1),
            self.command.payload.eq(line),
            # One line at a time is asked for, and there is always room for it.
            fetcher.o.ready.eq(1),
        ]
        header = data.View(struct(HEADER), line)
        # Where the list ends: behind the image's first line, and in the memory, where it may end with the port.
        list_end = Signal.like(header.command_list + header.commands)
        end = Signal.like(self.base + list_end)
        command = data.View(struct(COMMANDS[Opcode.NOP]), line)
        completion = self.o.payload

        def fail(code: Error, info: object) -> None:
            m.d.sync += [completion.error.eq(code), completion.info.eq(info)]
            m.next = "COMPLETE"

        in_header = Signal()
        m.d.sync += failed.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [self.base.eq(self.i.payload), at.eq(self.i.payload), in_header.eq(1), completion.eq(0)]
                with m.If(self.i.valid):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += fetcher.i.valid.eq(1)
                with m.If(fetcher.i.ready):
                    m.next = "READ"
            with m.State("READ"):
                m.d.sync += failed.eq(failed | (fetcher.o.valid & fetcher.o.payload.error))
                with m.If(fetcher.o.valid):
                    m.d.sync += line.eq(Cat(line, fetcher.o.payload.data)[self.data_width :])
                    with m.If(fetcher.o.payload.last):
                        m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(in_header):
                    m.d.sync += [
                        at.eq(self.base + header.command_list),
                        list_end.eq(header.command_list + header.commands),
                        end.eq(self.base + header.command_list + header.commands),
                    ]
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
                    m.next = "ASK"
            with m.State("EXECUTE"):
                m.d.comb += self.command.valid.eq(1)
                with m.If(self.command.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.executed.ready.eq(1)
                with m.If(self.executed.valid):
                    m.d.sync += [
                        at.eq(at + COMMAND_BYTES // LINE_BYTES),
                        completion.error.eq(self.executed.payload.code),
                        completion.info.eq(self.executed.payload.info),
                    ]
                    m.next = "NEXT"
                    with m.If(self.executed.payload.code != Error.NONE):
                        m.next = "COMPLETE"
            with m.State("COMPLETE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m
