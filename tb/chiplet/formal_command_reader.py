"""Proofs of the command reader: it waits for nobody but its partners, and completes every run once."""

from functools import partial
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Fragment, Module, Shape, Signal

from contracts import LINE_BYTES, Error
from hw.chiplet.command_reader import CommandReader
from sim.harness.formal import Proof, assert_stream, assume_stream

DATA_WIDTH = 256
BEATS = LINE_BYTES * 8 // DATA_WIDTH
#: Cycles without a handshake while nobody keeps it waiting: the fetcher's queue, the check, the next line.
PATIENCE = 6


def without_covers(fragment: Fragment) -> Fragment:
    """Return `fragment` without the cover points inside: a reader of single lines never fills its fetcher."""
    for domain, statements in list(fragment.statements.items()):
        kept = [found for found in statements if getattr(getattr(found, "kind", None), "name", "") != "Cover"]
        if kept:
            fragment.statements[domain] = type(statements)(kept)
        else:
            del fragment.statements[domain]
    for inner, _, _ in fragment.subfragments:
        without_covers(inner)
    return fragment


class CommandReaderSpec(Elaboratable):
    """Within a few cycles it offers something, or waits for a beat, an answer or a start.

    Parameters
    ----------
    ahead
        Commands asked for and not yet answered.
    """

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead

    def elaborate(self, platform: Any) -> Module:
        """Answer requests in any time with any data, commands with any report."""
        m = Module()
        dut = CommandReader(20, DATA_WIDTH, self.ahead)
        m.submodules.dut = without_covers(Fragment.get(dut, platform))
        for name, port in (("i", dut.i), ("executed", dut.executed)):
            m.d.comb += [port.valid.eq(AnySeq(1)), port.payload.eq(AnySeq(Shape.cast(port.payload.shape()).width))]
            assume_stream(m, port, name)
        outputs = (("command", dut.command), ("o", dut.o), ("request", dut.request))
        for name, port in outputs:
            m.d.comb += port.ready.eq(AnySeq(1))
            assert_stream(m, port, name)

        # Beats come for what was asked, and never else.
        owed, part = Signal(range((self.ahead + 1) * BEATS + 1)), Signal(range(BEATS))
        beat = dut.beat
        m.d.comb += [
            beat.valid.eq(AnySeq(1)),
            beat.payload.data.eq(AnySeq(DATA_WIDTH)),
            beat.payload.error.eq(AnySeq(1)),
            beat.payload.last.eq(part == BEATS - 1),
            Assume(~beat.valid | (owed != 0)),
        ]
        asked = dut.request.valid & dut.request.ready
        m.d.sync += [owed.eq(owed + asked * BEATS - beat.valid), part.eq(part + beat.valid)]
        m.d.comb += [
            Assert(~asked | (owed <= (self.ahead - 1) * BEATS)),
            Assert(~asked | (dut.request.payload.length == BEATS - 1)),
        ]

        started = dut.i.valid & dut.i.ready
        handed = dut.command.valid & dut.command.ready
        answered = dut.executed.valid & dut.executed.ready
        completed = dut.o.valid & dut.o.ready
        running, open_command = Signal(), Signal()
        m.d.sync += [
            running.eq((running | started) & ~completed),
            open_command.eq((open_command | handed) & ~answered),
        ]
        m.d.comb += [
            Assert(~(started & running)),
            # What was asked for ahead does not outlive the run.
            Assert(~dut.o.valid | (running & ~open_command & (owed == 0) & ~dut.request.valid)),
            Assert(~dut.command.valid | (running & ~open_command)),
            # An answer is only taken for a command.
            Assert(~answered | open_command),
        ]
        # The first report that is not good is the completion's, and no command comes after it.
        failed, code = Signal(), Signal(8)
        with m.If(answered & ~failed & (dut.executed.payload.code != Error.NONE)):
            m.d.sync += [failed.eq(1), code.eq(dut.executed.payload.code)]
        with m.If(completed):
            m.d.sync += failed.eq(0)
        m.d.comb += Assert(~failed | ~dut.command.valid)
        with m.If(failed & dut.o.valid):
            m.d.comb += Assert(dut.o.payload.error == code)

        waits = (
            (dut.i.ready & ~dut.i.valid)
            | (owed != 0)
            | (dut.executed.ready & ~dut.executed.valid)
            | dut.request.valid
            | dut.command.valid
            | dut.o.valid
        )
        idle = Signal(range(PATIENCE + 2))
        m.d.sync += idle.eq(0)
        with m.If(~waits & ~started & ~answered):
            m.d.sync += idle.eq(idle + 1)
        m.d.comb += Assert(idle <= PATIENCE)

        commands = Signal(2)
        with m.If(started):
            m.d.sync += commands.eq(0)
        with m.Elif(handed):
            m.d.sync += commands.eq(commands + 1)
        m.d.comb += [
            Cover(completed & (commands == 1) & (dut.o.payload.error == Error.NONE)),
            Cover(completed & (commands == 1) & failed),
            *([Cover(asked & open_command)] if self.ahead > 1 else []),
            Cover(completed & (commands == 0) & (dut.o.payload.error == Error.MEMORY_READ)),
            Cover(completed & (commands == 0) & (dut.o.payload.error == Error.BAD_VERSION)),
            Cover(completed & (commands == 0) & (dut.o.payload.error == Error.BAD_OPERAND)),
        ]
        return m


PROOFS = [
    proof
    for ahead in (1, 2)
    for proof in (
        Proof(f"waits_for_its_partners_only_{ahead}", partial(CommandReaderSpec, ahead), "bmc", 15, quick=ahead > 1),
        Proof(f"reaches_its_states_{ahead}", partial(CommandReaderSpec, ahead), "cover", 30, quick=ahead > 1),
    )
]
