"""Worker: a searcher with its record buffer and its collector (I3, I4)."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from hw.locator.collector import Collector
from hw.locator.config import LocatorConfig
from hw.locator.formats import AccessSignature, RecordBeat, SearchSignature, pass_through
from hw.locator.record_buffer import RecordBuffer
from hw.locator.searcher import Searcher

__all__ = ["Worker"]


class Worker(wiring.Component):
    """Finds communities and emits their records; the next search runs during the emission.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    search
        To and from the rest of the locator.
    access
        To and from the graph.
    o
        Records.
    emitting
        A record is being emitted.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "search": Out(SearchSignature(config)),
                "access": Out(AccessSignature(config)),
                "o": Out(stream.Signature(RecordBeat)),
                "emitting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect searcher, buffer and collector."""
        m = Module()
        m.submodules.searcher = searcher = Searcher(self.config)
        m.submodules.buffer = buffer = RecordBuffer(self.config)
        m.submodules.collector = collector = Collector(self.config)
        wiring.connect(m, searcher.search, wiring.flipped(self.search))
        pass_through(m, searcher.access, self.access)
        wiring.connect(m, searcher.buffer, buffer.writer)
        wiring.connect(m, searcher.members, buffer.nodes)
        wiring.connect(m, searcher.found, collector.i)
        wiring.connect(m, collector.buffer, buffer.reader)
        wiring.connect(m, collector.o, wiring.flipped(self.o))
        m.d.comb += [
            collector.settings.eq(self.search.settings),
            self.emitting.eq(collector.busy | self.o.valid),
        ]
        return m
