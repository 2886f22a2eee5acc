"""Hub detector: finds pending vertices whose degree is above the threshold (I1)."""

from amaranth.hdl import Array, Assert, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.formats import PEAK_BITS, Row, Settings, peak
from hw.locator.state_store import ScanRow
from hw.lowest import lowest_one

__all__ = ["Hub", "HubDetector"]

#: Maximum of words that have not been visited in this run.
_TOP = (1 << PEAK_BITS) - 1


class Hub(data.StructLayout):
    """A new hub, or an ``isolated`` vertex: the ``vertex`` and its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vertex": config.node_bits, "row": Row(config), "isolated": 1})


class HubDetector(wiring.Component):
    """Compares the degrees of one vertex of every bank in each cycle, in the order of vertices.

    The largest pending degree of each such word is kept, so a round visits only words that had a candidate at their
    last visit; the others are skipped at no cost. With pages, one maximum is kept for all words of a page, which are
    visited together. Searches may run meanwhile: vertices that they identify have degrees at or below the threshold,
    and so are no candidates.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    clear
        Forget the degrees of words, before a run.
    start
        Start a scan.
    scan, scanned
        To and from the state store.
    o
        New hubs, and in round 0 isolated vertices.
    busy
        A scan is running.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "clear": In(1),
                "start": In(1),
                "scan": Out(range(config.rows)),
                "scanned": In(ScanRow(config)),
                "o": Out(stream.Signature(Hub(config))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare a word a cycle; hold it until its hubs are sent."""
        m = Module()
        config, settings = self.config, self.settings
        # Words that share a maximum.
        together = config.page_rows if config.paged else 1
        peaks = [Signal(PEAK_BITS, name=f"peak{n}") for n in range(config.rows // together)]
        word = Signal(range(config.rows))
        busy, judged, present = Signal(), Signal(), Signal()
        sent = Signal(config.banks)
        new, low, isolated = self._classify(m, word)
        left, lowest, chosen = Signal(config.banks), Signal(config.banks), Signal(config.bank_bits)
        last = Signal()
        m.d.comb += [
            left.eq((new | isolated) & ~sent),
            lowest.eq(left & (~left + 1)),
            last.eq((left & ~lowest) == 0),
            chosen.eq(lowest_one(left)[1]),
            self.busy.eq(busy),
            present.eq(busy & self.scanned.present),
            self.o.valid.eq(present & left.any()),
            self.o.payload.vertex.eq(Cat(chosen, word) + settings.first),
            self.o.payload.row.eq(Array(self.scanned.rows[n].as_value() for n in range(config.banks))[chosen]),
            self.o.payload.isolated.eq((isolated & lowest).any()),
        ]
        following, more = self._next(m, peaks, word, exact_log2(together))
        advance = Signal()
        m.d.comb += [
            advance.eq(present & last & (~left.any() | self.o.ready)),
            # The contents of a word follow its address by a cycle.
            self.scan.eq(Mux(self.start | advance, following, word)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += sent.eq(sent | lowest)
        with m.If(present):
            m.d.sync += judged.eq(1)
        with m.If(advance | self.start):
            m.d.sync += [word.eq(following), busy.eq(more), sent.eq(0), judged.eq(0)]
        self._keep(m, peaks, word, exact_log2(together), low, present & ~judged)
        m.d.sync += Cover(self.o.valid & ~last, "several hubs in a word")
        return m

    def _classify(self, m: Module, word: Signal) -> tuple[Signal, Signal, Signal]:
        """Return the vertices of the word that are new hubs, that stay pending, and those that are isolated."""
        config, settings = self.config, self.settings
        # All vertices of a word exist, or those below the number of vertices.
        full, ends = Signal(), Signal()
        rest, last_word = settings.vertices[: config.bank_bits], settings.vertices[config.bank_bits :]
        m.d.comb += [full.eq(word < last_word), ends.eq(word == last_word)]
        low, new, isolated = Signal(config.banks), Signal(config.banks), Signal(config.banks)
        for lane in range(config.banks):
            row, pends = self.scanned.rows[lane], Signal(name=f"pends{lane}")
            exists = full | (ends & (rest > lane))
            m.d.comb += [
                pends.eq(exists & ~self.scanned.done[lane] & (row.degree <= settings.previous)),
                new[lane].eq(pends & (row.degree > settings.threshold)),
                low[lane].eq(pends & ~new[lane]),
                isolated[lane].eq(low[lane] & (row.degree == 0) & (settings.round == 0)),
            ]
        return new, low, isolated

    def _next(self, m: Module, peaks: list[Signal], word: Signal, in_group: int) -> tuple[Signal, Signal]:
        """Return the next word to visit, and whether there is one."""
        group, settings = word[in_group:], self.settings
        open_groups, later, following = Signal(len(peaks)), Signal(len(peaks)), Signal.like(word)
        first, more = Signal.like(group), Signal()
        m.d.comb += [
            *(open_groups[n].eq((kept > settings.peak) | (kept == _TOP)) for n, kept in enumerate(peaks)),
            later.eq(Mux(self.start, open_groups, open_groups & Cat(group < n for n in range(len(peaks))))),
            first.eq(lowest_one(later)[1]),
            following.eq(first << in_group),
            # Words behind the last vertex keep the initial value: to be visited.
            more.eq(later.any() & ((first << self.config.bank_bits + in_group) < settings.vertices)),
        ]
        if in_group:
            with m.If(~self.start & ~word[:in_group].all()):
                m.d.comb += [following.eq(word + 1), more.eq(1)]
        m.d.sync += Cover(self.start & more & ~later[0], "the first words are skipped")
        return following, more

    def _keep(self, m: Module, peaks: list[Signal], word: Signal, in_group: int, low: Signal, comes: Value) -> None:
        """Keep the largest degree that stays pending in each group of words.

        It is written once for each word, two cycles after its contents arrive. No group is read again before that, as
        the next scan begins at least three cycles after the last word.
        """
        group, banks = word[in_group:], range(self.config.banks)
        stays = [Signal(PEAK_BITS, name=f"stays{n}") for n in banks]
        m.d.sync += [stays[n].eq(Mux(low[n], peak(self.scanned.rows[n].degree), 0)) for n in banks]
        seen = Signal(data.StructLayout({"comes": 1, "group": group.shape(), "follows": 1}))
        known, largest = Signal.like(seen), Signal(PEAK_BITS)
        m.d.sync += [
            seen.comes.eq(comes),
            seen.group.eq(group),
            seen.follows.eq(word[:in_group].any()),
            known.eq(seen),
            largest.eq(_largest(m, stays)),
        ]
        for n, remembered in enumerate(peaks):
            with m.If(known.comes & (known.group == n) & ~(known.follows & (remembered > largest))):
                m.d.sync += remembered.eq(largest)
            with m.If(self.clear):
                m.d.sync += remembered.eq(_TOP)
        m.d.sync += Assert(
            ~(self.start & (seen.comes | known.comes)), "a scan begins before the last word is remembered"
        )


def _largest(m: Module, values: list[object]) -> Signal:
    """Return the largest of the values, by pairs."""
    level = 0
    while len(values) > 1:
        pairs = []
        for n in range(0, len(values), 2):
            larger = Signal(PEAK_BITS, name=f"larger{level}_{n // 2}")
            a, b = values[n], values[n + 1]
            m.d.comb += larger.eq(Mux(a > b, a, b))  # type: ignore[operator]
            pairs.append(larger)
        values, level = list(pairs), level + 1
    return values[0]
