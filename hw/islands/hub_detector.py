"""Hub detector: finds pending vertices whose degree is above the threshold (I1)."""

from amaranth.hdl import Array, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.config import LocatorConfig
from hw.islands.formats import Row, Settings
from hw.islands.state_store import ScanRow

__all__ = ["Hub", "HubDetector"]


class Hub(data.StructLayout):
    """A new hub, or an ``isolated`` vertex: the ``vertex`` and its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vertex": config.node_bits, "row": Row(config), "isolated": 1})


class HubDetector(wiring.Component):
    """Compares the degrees of one vertex of every bank in each cycle, in the order of vertices.

    Words in which every vertex is identified are remembered and skipped from then on, at no cost. Searches may run
    meanwhile: what they identify has a degree at or below the threshold, and so is no candidate.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    clear
        Forget which words are identified, before a run.
    start, probe
        Begin to scan; with ``probe`` only count.
    scan, scanned
        To and from the state store.
    o
        New hubs, and in round 0 isolated vertices.
    busy
        The scan goes on.
    pending
        Vertices that were pending when the round began, valid when the scan has ended. Some of those that a search
        has identified since may be missing, but never all of them.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "clear": In(1),
                "start": In(1),
                "probe": In(1),
                "scan": Out(range(config.rows)),
                "scanned": In(ScanRow(config)),
                "o": Out(stream.Signature(Hub(config))),
                "busy": Out(1),
                "pending": Out(config.node_bits + 1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Judge a word a cycle, hold it until its hubs are sent."""
        m = Module()
        config, settings = self.config, self.settings
        open_words = Signal(config.rows)  # words with a vertex that is not identified
        word = Signal(range(config.rows))
        busy, judged = Signal(), Signal()
        quiet = Signal()
        sent = Signal(config.banks)

        pend, new, isolated = Signal(config.banks), Signal(config.banks), Signal(config.banks)
        for lane in range(config.banks):
            row = self.scanned.rows[lane]
            exists = Cat(Const(lane, config.bank_bits), word) < settings.vertices
            m.d.comb += [
                pend[lane].eq(exists & ~self.scanned.done[lane] & (row.degree <= settings.previous)),
                new[lane].eq(pend[lane] & (row.degree > settings.threshold)),
                isolated[lane].eq(pend[lane] & (row.degree == 0) & (settings.round == 0)),
            ]
        left, lowest, lane = Signal(config.banks), Signal(config.banks), Signal(config.bank_bits)
        last = Signal()
        m.d.comb += [
            left.eq(Mux(quiet, 0, (new | isolated) & ~sent)),
            lowest.eq(left & (~left + 1)),
            last.eq((left & ~lowest) == 0),
            self.busy.eq(busy),
            self.o.valid.eq(busy & left.any()),
            self.o.payload.vertex.eq(Cat(lane, word) + settings.first),
            self.o.payload.row.eq(Array(self.scanned.rows[n].as_value() for n in range(config.banks))[lane]),
            self.o.payload.isolated.eq((isolated & lowest).any()),
        ]
        for n in range(config.banks):
            with m.If(lowest[n]):
                m.d.comb += lane.eq(n)

        # The next word that is worth a look; its contents come a cycle after its address.
        later, following, end = Signal(config.rows), Signal(range(config.rows)), Signal()
        with m.If(self.start):
            m.d.comb += later.eq(open_words)
        with m.Else():
            m.d.comb += later.eq(open_words & Cat(word < n for n in range(config.rows)))
        m.d.comb += end.eq(~later.any())
        for n in reversed(range(config.rows)):
            with m.If(later[n]):
                m.d.comb += following.eq(n)
        advance = Signal()
        m.d.comb += [
            advance.eq(busy & last & (~left.any() | self.o.ready)),
            self.scan.eq(Mux(self.start | advance, following, word)),
        ]
        with m.If(busy & ~judged):
            # Once for each word, when it comes.
            m.d.sync += self.pending.eq(self.pending + sum(pend[n] for n in range(config.banks)))
            with m.If(~(pend & ~new).any()):
                m.d.sync += open_words.bit_select(word, 1).eq(0)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += sent.eq(sent | lowest)
        m.d.sync += judged.eq(busy)
        with m.If(advance | self.start):
            m.d.sync += [word.eq(following), busy.eq(~end), sent.eq(0), judged.eq(0)]
        with m.If(self.start):
            m.d.sync += [self.pending.eq(0), quiet.eq(self.probe)]
        with m.If(self.clear):
            m.d.sync += open_words.eq(Cat((n << config.bank_bits) < settings.vertices for n in range(config.rows)))
        m.d.sync += [
            Cover(self.o.valid & ~last, "several hubs in a word"),
            Cover(self.start & ~end & ~open_words[0], "the first word is skipped"),
        ]
        return m
