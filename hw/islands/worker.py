"""Worker: a searcher with its record buffer and its collector (I3, I4)."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.collector import Collector
from hw.islands.config import LocatorConfig
from hw.islands.formats import Answer, Claim, Owner, RecordBeat, Request, Settings, Status, Task, Verdict
from hw.islands.record_buffer import RecordBuffer
from hw.islands.searcher import Searcher

__all__ = ["Worker"]


class Worker(wiring.Component):
    """Finds communities and emits them; the next search goes on while a record is emitted.

    Parameters
    ----------
    config
        Sizes.
    number
        Of the search.

    Attributes
    ----------
    settings, clear, task, request, answer, line_request, line, conflict, verdict, status, claim
        As for `hw.islands.searcher.Searcher`.
    read, began, gave_up, retreated
        The same.
    o
        Records.
    busy
        A task is under way.
    emitting
        A record is.
    """

    def __init__(self, config: LocatorConfig, number: int) -> None:
        self.config, self.number = config, number
        super().__init__(
            {
                "settings": In(Settings(config)),
                "clear": In(1),
                "task": In(stream.Signature(Task(config))),
                "request": Out(stream.Signature(Request(config))),
                "answer": In(Answer(config)),
                "line_request": Out(stream.Signature(config.line_bits)),
                "line": In(stream.Signature(config.data_width, always_ready=True)),
                "conflict": Out(stream.Signature(Owner(config))),
                "verdict": In(stream.Signature(Verdict, always_ready=True)),
                "status": Out(Status(config)),
                "claim": In(Claim()),
                "o": Out(stream.Signature(RecordBeat)),
                "busy": Out(1),
                "emitting": Out(1),
                "read": Out(1),
                "began": Out(1),
                "gave_up": Out(1),
                "retreated": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the three."""
        m = Module()
        m.submodules.searcher = searcher = Searcher(self.config, self.number)
        m.submodules.buffer = buffer = RecordBuffer(self.config)
        m.submodules.collector = collector = Collector(self.config)
        for name in ("task", "line"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(searcher, name))
        for name in ("request", "line_request", "conflict"):
            wiring.connect(m, getattr(searcher, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, wiring.flipped(self.verdict), searcher.verdict)
        wiring.connect(m, searcher.found, collector.i)
        wiring.connect(m, collector.o, wiring.flipped(self.o))
        m.d.comb += [
            searcher.settings.eq(self.settings),
            collector.settings.eq(self.settings),
            searcher.clear.eq(self.clear),
            searcher.answer.eq(self.answer),
            searcher.claim.eq(self.claim),
            self.status.eq(searcher.status),
            self.busy.eq(searcher.busy),
            self.emitting.eq(collector.busy | self.o.valid),
            *(getattr(self, name).eq(getattr(searcher, name)) for name in ("read", "began", "gave_up", "retreated")),
        ]
        for name in ("clear", "node", "hub", "bit"):
            wiring.connect(m, getattr(searcher, f"buffer_{name}"), getattr(buffer, name))
        for name in ("tag", "node_index", "fetch", "hub_index"):
            m.d.comb += getattr(buffer, name).eq(getattr(searcher, f"buffer_{name}"))
        m.d.comb += searcher.buffer_fetched.eq(buffer.fetched)
        for name in ("node", "hub", "word"):
            m.d.comb += [
                getattr(buffer, f"{name}_read").eq(getattr(collector, f"{name}_read")),
                getattr(collector, f"{name}_out").eq(getattr(buffer, f"{name}_out")),
            ]
        return m
