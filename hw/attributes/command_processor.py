"""Command processor: takes commands from the host, issues them to cores, and synchronises the cores (A9)."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.hdl import Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMMAND_BYTES, COMMANDS, COMPLETION, Error, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue

__all__ = ["CommandProcessor"]

#: Depth of the queue of commands.
_WAITING = 8


class CommandProcessor(wiring.Component):
    """Buffers commands, issues each to a free core, and completes each once.

    Commands begin in their order and end in any; a BARRIER ends when all before it have, and nothing behind it begins
    earlier. An error ends its own command only.

    Parameters
    ----------
    cores
        Number of cores, 1..16.

    Attributes
    ----------
    i : stream of unsigned(512)
        Commands, see `contracts.COMMANDS`.
    o : stream of `COMPLETION`
        One for each command.
    commands : streams of unsigned(512)
        To every core.
    executed : streams of `ErrorReport`
        From every core.
    busy : Out
        A bit for each core: it has a command.

    Raises
    ------
    ValueError
        If `cores` is out of its range.
    """

    def __init__(self, cores: int = 2) -> None:
        if not 1 <= cores <= 16:
            raise ValueError(f"cores must be in 1..16, not {cores!r}")
        self.cores = cores
        command, answer = stream.Signature(unsigned(8 * COMMAND_BYTES)), stream.Signature(ErrorReport)
        super().__init__(
            {
                "i": In(command),
                "o": Out(stream.Signature(struct(COMPLETION))),
                "commands": Out(command).array(cores),
                "executed": In(answer).array(cores),
                "busy": Out(cores),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Choose the next free core in turn; remember layer and tag of its command."""
        m = Module()
        m.submodules.waiting = waiting = Queue(unsigned(8 * COMMAND_BYTES), _WAITING)
        # Completions of the cores, and those of barriers.
        m.submodules.arbiter = arbiter = Arbiter(struct(COMPLETION), self.cores + 1)
        connect(m, flipped(self.i), waiting.i)
        head = data.View(struct(COMMANDS[Opcode.NOP]), waiting.o.payload)
        barrier = Signal()
        last = Signal(self.cores, init=1)
        free, offered, taken = Signal(self.cores), Signal(self.cores), Signal(self.cores)
        m.d.comb += [
            self.o.valid.eq(arbiter.o.valid),
            self.o.payload.eq(arbiter.o.payload.payload),
            arbiter.o.ready.eq(self.o.ready),
            barrier.eq(waiting.o.valid & (head.opcode == Opcode.BARRIER)),
            free.eq(~self.busy),
        ]
        for n in range(self.cores):
            with m.If(last[n]):
                # The last assignment wins, so the nearest one after n stands last, and n itself first.
                for distance in reversed(range(1, self.cores + 1)):
                    candidate = (n + distance) % self.cores
                    with m.If(free[candidate]):
                        m.d.comb += offered.eq(1 << candidate)
        for n in range(self.cores):
            tag, layer = Signal(16, name=f"tag_{n}"), Signal(8, name=f"layer_{n}")
            out = arbiter.i[n]
            m.d.comb += [
                self.commands[n].payload.eq(waiting.o.payload),
                self.commands[n].valid.eq(waiting.o.valid & ~barrier & offered[n]),
                taken[n].eq(self.commands[n].valid & self.commands[n].ready),
                out.valid.eq(self.executed[n].valid),
                self.executed[n].ready.eq(out.ready),
                out.payload.error.eq(self.executed[n].payload.code),
                out.payload.info.eq(self.executed[n].payload.info),
                out.payload.layer.eq(layer),
                out.payload.tag.eq(tag),
            ]
            with m.If(taken[n]):
                m.d.sync += [self.busy[n].eq(1), tag.eq(head.tag), layer.eq(head.layer), last.eq(1 << n)]
            with m.Elif(out.valid & out.ready):
                m.d.sync += self.busy[n].eq(0)
        of_barrier = arbiter.i[self.cores]
        m.d.comb += [
            of_barrier.valid.eq(barrier & ~self.busy.any()),
            of_barrier.payload.error.eq(Error.NONE),
            of_barrier.payload.layer.eq(head.layer),
            of_barrier.payload.tag.eq(head.tag),
            waiting.o.ready.eq(Mux(barrier, of_barrier.valid & of_barrier.ready, taken.any())),
        ]
        m.d.sync += [
            Cover(barrier & self.busy.any(), "a barrier waits"),
            Cover(waiting.o.valid & self.busy.all(), "all cores are busy"),
            Cover(Cat(port.valid for port in self.executed).all(), "all cores end at once"),
        ]
        return m
