"""Record dispatcher: keeps records, and issues each to the PE that has been given the least (I4, I5, I9)."""

from typing import Any

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import RECORD_HEADER
from contracts.communities import ARRIVALS, UNORDERED
from hw.community.record_gate import RecordGate
from hw.community.record_sharer import RecordSharer
from hw.community.record_words import (
    RecordPacker,
    RecordUnpacker,
    WordFormat,
    WordJoiner,
    WordSplitter,
    ends_record,
)
from hw.community.replay_fifo import ReplayFifo
from hw.community.smoother import LOAD_BITS, Smoother
from hw.contracts import struct
from hw.locator.formats import RecordBeat
from hw.stream.arbiter import merge
from hw.stream.hold import hold
from hw.stream.slice import Slice

__all__ = ["RecordDispatcher"]

#: Pairs of words of a PE's queue: two block RAMs.
_QUEUE = 512
#: Pairs in a PE's queue above which it gets no more records.
_AHEAD = 16
#: Pairs of records that can wait for rows of other chiplets: with a place for each group, 4,096.
_ASIDE = 4096 - ARRIVALS
#: Work of a row of the bitmap relative to that of a hub.
_ROW = 2


class RecordDispatcher(wiring.Component):
    """Issues records of several streams in one order, and keeps them for the next layer.

    Records are kept once, for all PEs, in the words of `hw.community.record_words`. Two words a cycle are read, for the
    PE that `hw.community.smoother.Smoother` selects of those with little in their queues. A replay is the same, so its
    records may go to other PEs. On a ring, records that name vertices of others are put aside until the rows of these
    come, or those that do not have gone (`hw.community.record_gate.RecordGate`). Records of streams that are `behind`
    wait in the store for their turn.

    Parameters
    ----------
    pes
        PEs, 1 to 64.
    depth
        Pairs of words of records that are kept, a power of two.
    streams
        Streams of records, at least 1.
    width
        Most nodes and hubs of a record together.
    vid_bits
        Bits of a VID.
    partials
        Rows may be exchanged.
    shares
        Records may be split over PEs.

    Attributes
    ----------
    hops : In(2)
        Reach of smoothing; constant while there are records.
    split : In(9)
        With `shares`: largest difference of loads that a whole record may make; see
        `hw.community.smoother.Smoother`. Constant while there are records.
    first, vertices : In
        VIDs that are located, from the first one; constant while records come.
    holds : In(1)
        Records that name others wait for those that do not, or for rows.
    arrival : In(5)
        With `partials`: rows of others come in the order of their VIDs, from the own ones on, and 2^arrival of them
        are a group; `contracts.communities.UNORDERED` if the order is another one.
    come : In(16)
        With `partials`: rows of others that have come.
    i
        Beats of records, and the end of every stream.
    o
        Beats for every PE, without the end; rounds are 0, and parts after the first 1.
    start : In(1)
        New streams begin: drop the previous records and clear ``ended``. Not before the previous streams are `there`.
    behind : In(1)
        With `start`: keep the previous records, and issue those of the new streams behind them, after `turn`.
    turn : In(1)
        Pulse, after `ended`: go on to the records that are behind.
    replay : In(1)
        Issue all records again. Only after `ended`, and only if they are `whole`.
    whole : Out(1)
        All records of the streams are still stored, and no others.
    there : Out(1)
        The streams have ended and all of their records are stored.
    ended : Out(1)
        The streams have ended and all of their records have been issued; of records behind them nothing is said.
    smoothed : Out(1)
        Pulse: a record went to a PE other than its turn's.
    shared : Out(1)
        With `shares`, pulse: a record is issued in shares.

    Raises
    ------
    ValueError
        If `pes` or `depth` is out of range.
    """

    def __init__(
        self,
        pes: int,
        depth: int = 4096,
        streams: int = 1,
        width: int = 128,
        vid_bits: int = 13,
        *,
        partials: bool = False,
        shares: bool = False,
    ) -> None:
        self.pes, self.depth, self.streams, self.partials, self.shares = pes, depth, streams, partials, shares
        self.sizes = WordFormat(width, vid_bits, shares)
        # Records of every other location are marked, so that they do not go before their turn.
        self._store = ReplayFifo(data.StructLayout({"pair": self.sizes.pair, "turn": 1}), depth)
        self._smoother = Smoother(pes, (_ROW * width).bit_length(), remaps=shares)
        super().__init__(
            {
                "hops": In(2),
                "first": In(vid_bits),
                "vertices": In(vid_bits + 1),
                "holds": In(1),
                "i": In(stream.Signature(RecordBeat)).array(streams),
                "o": Out(stream.Signature(RecordBeat)).array(pes),
                "start": In(1),
                "behind": In(1),
                "turn": In(1),
                "replay": In(1),
                "whole": Out(1),
                "there": Out(1),
                "ended": Out(1),
                "smoothed": Out(1),
                **({"arrival": In(5), "come": In(16)} if partials else {}),
                **({"split": In(LOAD_BITS - 1), "shared": Out(1)} if shares else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Pack the records of each stream, merge and keep them, and issue these one after the other."""
        m = Module()
        words, word, packed = self._pack(m)
        records, kept = self._keep(m, words, word)
        if self.partials:
            records, kept = self._put_aside(m, records, kept, words, word)
        issued = self._issue(m, records)
        m.d.comb += [self.there.eq(packed), self.ended.eq(kept & issued)]
        return m

    def _pack(self, m: Module) -> tuple[Any, Any, Value]:
        """Pack the records of all streams; return one of all, its word, and whether all have ended and left.

        Streams are merged when they are packed: a record of few hubs has four beats or more, but a single pair.
        """
        shape = data.StructLayout({"pair": self.sizes.pair, "last": 1, "others": self.sizes.vid_bits + 1})
        sources: list[Any] = []
        stopped = Signal(self.streams)
        for n, beats in enumerate(self.i):
            m.submodules[f"packer_{n}"] = packer = RecordPacker(self.sizes)
            m.submodules[f"joiner_{n}"] = joiner = WordJoiner(self.sizes)
            # The next record is packed while a pair waits for those of other streams.
            m.submodules[f"packed_{n}"] = packed = Slice(shape)
            header, end = Signal(struct(RECORD_HEADER), name=f"header_{n}"), Signal(name=f"end_{n}")
            pair = joiner.o.payload
            connect(m, packer.o, joiner.i)
            m.d.comb += [
                header.eq(beats.payload.data),
                end.eq(packer.idle & header.end),
                packer.i.payload.eq(beats.payload),
                packer.i.valid.eq(beats.valid & ~end),
                beats.ready.eq(packer.i.ready | end),
                packed.i.payload.pair.eq(pair),
                packed.i.payload.last.eq(ends_record(pair)),
                packed.i.payload.others.eq(packer.others),
                packer.first.eq(self.first),
                packer.vertices.eq(self.vertices),
                packed.i.valid.eq(joiner.o.valid),
                joiner.o.ready.eq(packed.i.ready),
            ]
            sources.append(packed.o)
            with m.If(beats.valid & end):
                m.d.sync += stopped[n].eq(1)
        with m.If(self.start):
            m.d.sync += stopped.eq(0)
        words, word, _ = merge(m, "merger", sources, shape, whole=True)
        # A stream ends behind a whole record, of which then at most pairs that are packed are still here.
        waits = Cat(source.valid for source in sources).any()
        return words, word, stopped.all() & ~waits & ~words.valid

    def _keep(self, m: Module, words: Any, word: Any) -> tuple[Any, Value]:
        """Keep records; return those whose turn it is, again when they are replayed, and whether none is left."""
        m.submodules.store = store = self._store
        comes, goes, mixed = Signal(), Signal(), Signal()
        first = self.start & ~self.behind
        o = stream.Signature(self.sizes.pair).create(path=("stored",))
        mine = store.o.payload.turn == goes
        m.d.comb += [
            store.start.eq(first),
            store.replay.eq(self.replay),
            store.i.payload.pair.eq(word.pair),
            store.i.payload.turn.eq(comes),
            store.i.valid.eq(words.valid),
            words.ready.eq(store.i.ready),
            self.whole.eq(store.whole & ~mixed),
            o.payload.eq(store.o.payload.pair),
            o.valid.eq(store.o.valid & mine),
            store.o.ready.eq(o.ready & mine),
        ]
        with m.If(self.start):
            m.d.sync += [mixed.eq(self.behind), comes.eq(comes ^ self.behind)]
        with m.If(self.turn):
            m.d.sync += goes.eq(~goes)
        m.d.sync += [
            Assert(~(first & (comes != goes)), "new streams begin before the turn of those that are behind"),
            Assert(~(self.turn & (comes == goes)), "nothing is behind"),
            Cover(store.o.valid & ~mine & self.ended, "records wait for their turn"),
        ]
        return o, (self.there | (comes != goes)) & (store.empty | (store.o.valid & ~mine))

    def _put_aside(self, m: Module, records: Any, none: Value, words: Any, word: Any) -> tuple[Any, Value]:
        """Let others overtake records that wait for rows; return them in turn, and whether none is left."""
        m.submodules.others = others = ReplayFifo(len(word.others), self.depth)
        m.submodules.gate = gate = RecordGate(self.sizes, max(_ASIDE, 2 * self.sizes.longest), ARRIVALS)
        # There are no more records than pairs, so there is room for a word of each that is kept.
        connect(m, records, gate.i)
        named, group, come = others.o.payload, Signal(len(word.others)), Signal(len(self.come))
        m.d.comb += [
            group.eq((named - 1)[: len(named)] >> self.arrival),
            gate.others.valid.eq(others.o.valid),
            others.o.ready.eq(gate.others.ready),
            gate.others.payload.eq(Mux(named == 0, 0, Mux(group < ARRIVALS - 1, group + 1, ARRIVALS))),
            come.eq(self.come >> self.arrival),
        ]
        m.d.sync += [
            gate.come.eq(Mux(come < ARRIVALS, come, ARRIVALS)),
            gate.ordered.eq(self.arrival != UNORDERED),
        ]
        m.d.comb += [
            others.start.eq(self.start & ~self.behind),
            others.replay.eq(self.replay),
            others.i.payload.eq(word.others),
            others.i.valid.eq(words.valid & words.ready & word.last),
            # Once they are all that is left they go, in the order in which rows come.
            gate.holds.eq(self.holds & ~none),
            gate.full.eq(~words.ready),
        ]
        return gate.o, none & gate.empty

    def _issue(self, m: Module, records: Any) -> Any:
        """Send each record to the PE that is selected when its head is there; return whether all are out."""
        m.submodules.smoother = smoother = self._smoother
        sharer = self._share(m, records) if self.shares else None
        records = self._weigh(m, records, sharer)
        pair, last = records.payload.pair, Signal()
        inside, ready, moves = Signal(), Signal(self.pes), Signal()
        m.d.comb += [
            last.eq(ends_record(pair)),
            # No queue is full as a rule, and to look at that of the PE alone would make the path longer.
            records.ready.eq(smoother.decided & ready.all()),
            moves.eq(records.valid & records.ready),
            smoother.hops.eq(self.hops),
            smoother.take.eq(moves & ~inside),
            smoother.work.eq(records.payload.work),
            smoother.done.eq(moves & last),
            self.smoothed.eq(smoother.take & smoother.moved),
        ]
        with m.If(moves):
            m.d.sync += inside.eq(~last)
        idle = []
        for n, port in enumerate(self.o):
            m.submodules[f"queue_{n}"] = queue = ReplayFifo(self.sizes.pair, _QUEUE)
            m.submodules[f"unpacker_{n}"] = unpacker = RecordUnpacker(self.sizes)
            m.submodules[f"splitter_{n}"] = splitter = WordSplitter(self.sizes)
            connect(m, queue.o, splitter.i)
            connect(m, splitter.o, unpacker.i)
            # A PE takes a beat by what it says: neither is on the way from a word to the queue that it leaves.
            m.submodules[f"beats_{n}"] = beats = Slice(RecordBeat)
            connect(m, unpacker.o, beats.i)
            connect(m, beats.o, flipped(port))
            m.d.comb += [
                queue.i.payload.eq(pair),
                queue.i.valid.eq(moves & smoother.pe[n]),
                ready[n].eq(queue.i.ready),
            ]
            m.d.sync += smoother.room[n].eq(queue.level < _AHEAD)
            idle.append(queue.empty & unpacker.idle & ~beats.o.valid)
        m.d.sync += Cover(records.valid & ~smoother.decided, "a record waits for its PE")
        return (sharer.idle if sharer else ~records.valid) & Cat(idle).all()

    def _weigh(self, m: Module, records: Any, sharer: RecordSharer | None) -> Any:
        """Return the records with their work, for their first pairs, which waits in a register for the decision.

        Shares cannot wait there: what is offered changes with the decision.
        """
        shape = data.StructLayout({"pair": self.sizes.pair, "work": len(self._smoother.work)})
        source, weighed = sharer.o if sharer else records, stream.Signature(shape).create(path=("weighed",))
        head = Signal(self.sizes.head)
        m.d.comb += [
            head.eq(source.payload.words[0].data),
            weighed.payload.pair.eq(source.payload),
            weighed.payload.work.eq(head.hubs + _ROW * (sharer.rows if sharer else head.nodes)),
            weighed.valid.eq(source.valid),
            source.ready.eq(weighed.ready),
        ]
        return weighed if sharer else hold(m, "issued", weighed, shape)

    def _share(self, m: Module, records: Any) -> RecordSharer:
        """Split records with which their PE would have too much more than another."""
        smoother, whole = self._smoother, Signal(self.sizes.head)
        m.submodules.sharer = sharer = RecordSharer(self.sizes)
        connect(m, records, sharer.i)
        m.d.comb += [
            whole.eq(records.payload.words[0].data),
            smoother.whole.eq(whole.hubs + _ROW * whole.nodes),
            smoother.split.eq(self.split),
            sharer.extreme.eq(smoother.extreme),
            self.shared.eq(sharer.shared),
        ]
        return sharer
