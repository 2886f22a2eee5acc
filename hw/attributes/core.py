"""Attribute core: carries out SAMPLE, FETCH and COPY commands with its own sampler and attribute RAM (A1-A9)."""

from typing import Any

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMPLETION, Opcode
from hw.attributes.attribute_access import AttributeAccess, core_window
from hw.attributes.batch_sampler import BatchSampler
from hw.attributes.formats import AttributeCoreConfig
from hw.chiplet.command_router import CommandRouter
from hw.chiplet.unit import unit_members
from hw.contracts import struct
from hw.memory.formats import WriteRequest
from hw.memory.unit_port import UNIT_ID_WIDTH, UNIT_OUTSTANDING
from hw.stream.arbiter import Arbiter

__all__ = ["AttributeCore", "AttributeCoreConfig"]


class AttributeCore(wiring.Component):
    """A sampler and an attribute access side by side, each with one command at a time; addresses count from `base`.

    They share the memory port, which does not say whose access has failed: it fails the commands of both.

    Parameters
    ----------
    config : AttributeCoreConfig
    background
        Whether somebody waits for `background` and asks for `late`; else no SAMPLE is answered before it has ended.

    Attributes
    ----------
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        ``FAN_OUT`` with a fan-out or number of negatives that is 0 or too large; ``BAD_OPERAND`` with another operand,
        or with the number of positions, or of lines to copy, if there is no room for them; ``VID_RANGE``;
        ``OFFSET_ORDER``; ``EDGE_RANGE``; ``MEMORY_READ``; ``MEMORY_WRITE``. A command ends with its first error,
        and the attribute RAM stays exact.
    base : In
        Line address.
    write : stream of `WriteRequest`
    writing : In(1)
        Writes have no answer yet.
    errors : streams of `ErrorReport`, always ready
        Failures of the memory port: reads and writes.
    requests, beats
        Clients' ends of the read arbiter.
    ending : In(1)
        A run has no more commands: rows that nobody has read are dropped.
    background : Out(1)
        A command is carried out, answered or not.
    late : Out
        `COMPLETION` of the first command of a run that has failed after its answer; its error is ``NONE`` if there is
        none. It is forgotten when `ending` falls.
    window : interface of `hw.memory.window.window_members`
        If the core has a window: rows for the engine, with ``failure``, why some of them are errors.
    """

    #: Its commands.
    OPCODES = (Opcode.SAMPLE, Opcode.COPY, Opcode.FETCH)
    id_width, outstanding = UNIT_ID_WIDTH, UNIT_OUTSTANDING
    #: Its graph may be divided among the chiplets of a ring.
    READS_GRAPHS = True

    def __init__(self, config: AttributeCoreConfig | None = None, *, background: bool = True) -> None:
        self.config = config = config or AttributeCoreConfig()
        self.port = (config.attribute.address_width, config.attribute.data_width)
        self._sampler = BatchSampler(config, background=background)
        self._access = AttributeAccess(config)
        #: Read clients, those of the sampler first.
        self.clients = self._sampler.CLIENTS + self._access.clients
        super().__init__(
            {
                **unit_members(self.port, self.clients),
                "ending": In(1),
                "background": Out(1),
                "late": Out(struct(COMPLETION)),
                **core_window(config),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Hand commands out, lead requests from the sampler to the access, and share the memory port."""
        m = Module()
        m.submodules.router = router = CommandRouter([(Opcode.FETCH,)])
        m.submodules.sampler = sampler = self._sampler
        m.submodules.access = access = self._access
        writes = (*sampler.writes, *access.writes)
        m.submodules.arbiter = arbiter = Arbiter(WriteRequest(*self.port), len(writes))
        connect(m, flipped(self.command), router.i)
        connect(m, router.executed, flipped(self.executed))
        writing, ended = Signal(), Signal()
        parts: tuple[Any, ...] = (sampler, access)
        for n, part in enumerate(parts):
            connect(m, router.o[n], part.command)
            connect(m, part.executed, router.answers[n])
            m.d.comb += [part.base.eq(self.base), part.writing.eq(writing)]
            for source, end in zip(self.errors, part.errors, strict=True):
                m.d.comb += [end.valid.eq(source.valid), end.payload.eq(source.payload)]
        connect(m, sampler.placed, access.placed)
        m.d.sync += ended.eq(self.ending)
        m.d.comb += [
            access.access.eq(sampler.access),
            access.flush.eq(sampler.flush),
            access.counts.eq(sampler.counts),
            access.positions.eq(sampler.positions),
            sampler.totals.eq(access.totals),
            sampler.settled.eq(access.settled),
            sampler.idle.eq(access.idle),
            sampler.forget.eq(ended & ~self.ending),
            access.ending.eq(self.ending),
            self.late.eq(sampler.late),
            self.background.eq(sampler.busy | access.busy | writing),
        ]
        if self.config.window:
            connect(m, flipped(self.window), access.window)

        requests, beats = (*sampler.requests, *access.requests), (*sampler.beats, *access.beats)
        for n, (request, beat) in enumerate(zip(requests, beats, strict=True)):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        for source, end in zip(writes, arbiter.i, strict=True):
            connect(m, source, end)
        m.d.comb += [
            writing.eq(self.write.valid | self.writing),
            self.write.valid.eq(arbiter.o.valid),
            self.write.payload.eq(arbiter.o.payload.payload),
            arbiter.o.ready.eq(self.write.ready),
        ]
        return m
