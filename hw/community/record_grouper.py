"""Record grouper: joins communities of one node that share hubs, so that they can share sums (I7, I8)."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import RECORD_HEADER, VID_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.contracts import struct
from hw.locator.formats import RecordBeat
from hw.lowest import lowest_one, without_lowest
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["RecordGrouper"]

#: Most VIDs of a group's window, twice its rows.
_WINDOW = 32
#: Groups that can be open at a time.
_OPEN = 16
#: Rows that each hub of a group must have in the mean.
_SHARED = 4
#: Records of which it is known whether they are collected while their beats wait.
_JUDGED = 16


class _Hubs:
    """VIDs of a record as its beats pass, two a beat, and the step that its first hub is in.

    Parameters
    ----------
    beat
        The beat that is offered.
    window, vid_bits, step_bits
        As of the grouper.
    """

    def __init__(self, beat: Any, window: int, vid_bits: int, step_bits: int) -> None:
        #: Hubs that are to come.
        self.left = Signal(range(window + 1), name="left")
        self.vids = [beat.data.word_select(n, VID_BITS)[:vid_bits] for n in range(2)]
        #: Steps of both VIDs; that of the first hub, from its beat on, and kept behind that.
        self.steps = [vid[step_bits:] for vid in self.vids]
        self.kept = Signal(max(1, vid_bits - step_bits), name="step")
        self._first = Signal(name="first")
        self.step = Mux(self._first, self.steps[0], self.kept)

    def begin(self, count: Value) -> list[Any]:
        """Return what is to be done in front of so many hubs."""
        return [self.left.eq(count), self._first.eq(1)]

    def take(self) -> list[Any]:
        """Return what is to be done with a beat of hubs."""
        return [
            self._first.eq(0),
            self.kept.eq(self.step),
            self.left.eq(Mux(self.left == 1, 0, self.left - 2)),
        ]


class RecordGrouper(wiring.Component):
    """Collects communities of one node by the window of VIDs that their hubs are in, and emits groups of them.

    Where many communities of one node name the same hubs, as in bipartite graphs and around a single hub, one record
    with a row for each of them requests a hub's row and returns its partial sum once for all, and its sums are shared.

    A window begins at a multiple of half its VIDs: that at or below the record's first hub. A record whose hubs are in
    the window is put into the group that is open for it; others pass. A group is emitted when it has all of its rows,
    when another window needs its place, or at the end of the stream. If it has all rows, each of its hubs `_SHARED` of
    them in the mean, and its hubs are a range of VIDs, it becomes one record, otherwise its records become what they
    were.
    Decisions are those of `golden.community.group`.

    Records of a hub's edges to other hubs pass: a piece of a row has at most the neighbours in a line of the adjacency,
    so their groups share little, and a PE plans a group for longer than it adds the rows of its records.

    Parameters
    ----------
    width
        Most nodes and hubs of a record together, at least 4.
    vid_bits
        Bits of a VID.

    Attributes
    ----------
    i : stream of `RecordBeat`
        Records, and the end of the stream.
    o : stream of `RecordBeat`
        The same rows in other records, and the end behind all of them. Rounds of records that were collected are 0.
    communities, hubs : Out(1)
        Pulses: the first part of a community, or of a hub's edges, has come.

    Raises
    ------
    ValueError
        If `width` is below 4.
    """

    def __init__(self, width: int, vid_bits: int) -> None:
        if width < 4:
            raise ValueError(f"width must be at least 4, not {width!r}")
        self.width, self.vid_bits = width, vid_bits
        #: VIDs of a window; most rows of a group.
        self.window = min(_WINDOW, 1 << (width.bit_length() - 2))
        self.rows = max(2, self.window // 2)
        # A step is half a window; as many steps have a place of their own.
        self.step_bits = exact_log2(self.window) - 1
        self.place_bits = max(1, min(exact_log2(_OPEN), vid_bits - self.step_bits))
        self._entry = data.StructLayout(
            {
                "step": max(1, vid_bits - self.step_bits),
                "rows": range(self.rows + 1),
                "bits": range(self.rows * self.window + 1),
                "hubs": self.window,
            }
        )
        self._row = data.StructLayout({"vid": vid_bits, "count": range(self.window + 1), "hubs": self.window})
        self._group = data.StructLayout({"entry": self._entry, "place": self.place_bits})
        super().__init__(
            {
                "i": In(stream.Signature(RecordBeat)),
                "o": Out(stream.Signature(RecordBeat)),
                "communities": Out(1),
                "hubs": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Judge records as they come, collect or pass them, and emit groups beside that."""
        m = Module()
        m.submodules.out = out = Slice(RecordBeat)
        connect(m, out.o, flipped(self.o))
        m.submodules.rows = rows = memory.Memory(
            shape=self._row, depth=self.rows << self.place_bits, init=[], attrs=dict(NO_BYPASS)
        )
        beats, judged = self._judge(m)
        group = stream.Signature(self._group).create(path=("group",))
        place, idle = self._emit(m, group, rows, out.i)
        self._collect(m, beats, judged, group, rows, out.i, place, idle)
        return m

    def _hubs_of(self, beat: Any) -> _Hubs:
        """Return the hubs of the records whose beats pass here."""
        return _Hubs(beat, self.window, self.vid_bits, self.step_bits)

    def _judge(self, m: Module) -> tuple[Any, Any]:
        """Keep beats until it is known of their record whether it is collected; return both."""
        # Beats of the longest record that is collected, and of some more.
        m.submodules.beats = beats = Queue(RecordBeat, self.window // 2 + _JUDGED, storage="distributed")
        m.submodules.judged = judged = Queue(1, _JUDGED)
        header, beat = Signal(struct(RECORD_HEADER)), self.i.payload
        takes, begins, whole, candidate = Signal(), Signal(), Signal(), Signal()
        # A candidate's decision waits for its end; its hubs are in the window so far; its node is to come.
        waits, near, node, inside = Signal(), Signal(), Signal(), Signal()
        hubs = self._hubs_of(beat)
        m.d.comb += [
            header.eq(beat.data),
            beats.i.payload.eq(beat),
            beats.i.valid.eq(self.i.valid & judged.i.ready),
            self.i.ready.eq(beats.i.ready & judged.i.ready),
            takes.eq(self.i.valid & self.i.ready),
            # Of a community in several parts no row has a sum of its own.
            whole.eq(~header.end & ~header.hub_edges & (header.part == 0) & header.last_part),
            candidate.eq(whole & (header.nodes == 1) & (header.hubs != 0) & (header.hubs <= self.window)),
            begins.eq(takes & ~inside & ~header.end & (header.part == 0)),
            self.communities.eq(begins & ~header.hub_edges),
            self.hubs.eq(begins & header.hub_edges),
        ]
        ahead = [(number == hubs.step) | (number == hubs.step + 1) for number in hubs.steps]
        with m.If(takes):
            m.d.sync += inside.eq(~beat.last)
            with m.If(~inside):
                m.d.sync += [waits.eq(candidate), near.eq(1), node.eq(1), *hubs.begin(header.hubs)]
                m.d.comb += [judged.i.valid.eq(~candidate), judged.i.payload.eq(0)]
            with m.Else():
                m.d.sync += node.eq(0)
                with m.If(~node & (hubs.left != 0)):
                    m.d.sync += [near.eq(near & ahead[0] & (ahead[1] | (hubs.left == 1))), *hubs.take()]
                with m.If(beat.last):
                    m.d.comb += [judged.i.valid.eq(waits), judged.i.payload.eq(near)]
        return beats.o, judged.o

    def _collect(
        self, m: Module, beats: Any, judged: Any, group: Any, rows: memory.Memory, out: Any, emitted: Value, idle: Value
    ) -> None:
        """Pass records, or put them into their group; hand groups on that are done."""
        entries = memory.Memory(shape=self._entry, depth=1 << self.place_bits, init=[])
        m.submodules.entries = entries
        read, write, store = entries.read_port(domain="comb"), entries.write_port(), rows.write_port()
        open_ = Signal(1 << self.place_bits)
        header, beat = Signal(struct(RECORD_HEADER)), beats.payload
        row, hubs = Signal(self._row), self._hubs_of(beat)
        place, flushed = Signal(self.place_bits), Signal(self.place_bits)
        places = [
            Cat(vid[: self.step_bits], step[:1] ^ hubs.step[:1])[: exact_log2(self.window)]
            for vid, step in zip(hubs.vids, hubs.steps, strict=True)
        ]
        marks = (1 << places[0]) | Mux(hubs.left == 1, 0, 1 << places[1])
        entry, opened, fresh = read.data, Signal(), Signal(self._entry)
        m.d.comb += [
            header.eq(beat.data),
            place.eq(hubs.kept),
            read.addr.eq(place),
            opened.eq(open_.bit_select(place, 1)),
            group.payload.entry.eq(entry),
            group.payload.place.eq(place),
            fresh.step.eq(hubs.kept),
            fresh.rows.eq(Mux(opened, entry.rows, 0) + 1),
            fresh.bits.eq(Mux(opened, entry.bits, 0) + row.count),
            fresh.hubs.eq(Mux(opened, entry.hubs, 0) | row.hubs),
            write.addr.eq(place),
            write.data.eq(fresh),
            store.addr.eq(Cat(Mux(opened, entry.rows, 0)[: exact_log2(self.rows)], place)),
            store.data.eq(row),
        ]

        def passes() -> Value:
            """Pass a beat; return whether one is out."""
            m.d.comb += [out.valid.eq(beats.valid), out.payload.eq(beat), beats.ready.eq(out.ready)]
            return beats.valid & out.ready

        with m.FSM() as fsm:
            with m.State("HEAD"):
                m.d.sync += [row.count.eq(header.hubs), row.hubs.eq(0), *hubs.begin(header.hubs)]
                with m.If(judged.valid & judged.payload):
                    m.d.comb += [judged.ready.eq(1), beats.ready.eq(1)]
                    m.next = "NODE"
                with m.Elif(judged.valid & header.end):
                    m.d.sync += flushed.eq(0)
                    m.next = "FLUSH"
                with m.Elif(judged.valid & idle):
                    with m.If(passes()):
                        m.next = "PASS"
            with m.State("NODE"):
                m.d.comb += beats.ready.eq(1)
                m.d.sync += row.vid.eq(hubs.vids[0])
                m.next = "HUBS"
            with m.State("HUBS"):
                m.d.comb += beats.ready.eq(1)
                m.d.sync += [row.hubs.eq(row.hubs | marks), *hubs.take()]
                with m.If(hubs.left <= 2):
                    m.next = "ROW"
            with m.State("ROW"):
                # The bits of the row itself say nothing new.
                with m.If(opened & (entry.step != hubs.kept)):
                    m.d.comb += group.valid.eq(1)
                    with m.If(group.ready):
                        m.d.sync += open_.bit_select(place, 1).eq(0)
                with m.Elif(idle | (emitted != place)):
                    m.d.comb += [beats.ready.eq(1), write.en.eq(1), store.en.eq(1)]
                    m.d.sync += open_.bit_select(place, 1).eq(1)
                    m.next = "HEAD"
                    with m.If(fresh.rows == self.rows):
                        m.next = "FULL"
            with m.State("FULL"):
                m.d.comb += group.valid.eq(1)
                with m.If(group.ready):
                    m.d.sync += open_.bit_select(place, 1).eq(0)
                    m.next = "HEAD"
            with m.State("PASS"):
                with m.If(passes() & beat.last):
                    m.d.comb += judged.ready.eq(1)
                    m.next = "HEAD"
            with m.State("FLUSH"):
                m.d.comb += [place.eq(flushed), group.valid.eq(opened)]
                with m.If(group.ready | ~opened):
                    m.d.sync += [open_.bit_select(flushed, 1).eq(0), flushed.eq(flushed + 1)]
                    with m.If(flushed.all()):
                        m.next = "END"
            with m.State("END"):
                with m.If(idle):
                    m.next = "PASS"
        collects = Cat(fsm.ongoing(state) for state in ("NODE", "HUBS", "ROW")).any()
        m.d.sync += [
            Assert(beats.valid | ~collects, "a record is judged when all of its beats are there"),
            Cover(group.valid & ~group.ready, "a group waits for the one before"),
            Cover(opened & (entry.rows == self.rows), "a group has all of its rows"),
        ]

    def _emit(self, m: Module, group: Any, rows: memory.Memory, out: Any) -> tuple[Value, Value]:
        """Emit a group as a record, or as the records that it was; return its place, and whether there is none."""
        read = registered_read(m, rows)
        now, idle = Signal(self._group), Signal()
        index, ahead = Signal(range(self.rows)), Signal(range(self.rows))
        # The group is one record; hubs of the record, and those of them that are to be named; the group's first one.
        joined, count, rest = Signal(), Signal(range(self.window + 1)), Signal(self.window)
        low = Signal(range(self.window))
        # VIDs go out in pairs: the first one waits for the second.
        vid, first_vid, second, last = Signal(self.vid_bits), Signal(self.vid_bits), Signal(), Signal()
        header, row, beat = Signal(struct(RECORD_HEADER)), read.data, Signal(2 * VID_BITS)
        # The row to give. That of a record of one node has its own bit, and one for each hub that has been named; the
        # others come from memory, and are shifted a cycle before.
        bits = Signal(self.rows + self.window, reset_less=True)
        ends, inside, after = Signal(), Signal(), Signal()
        m.d.comb += [
            read.addr.eq(Cat(ahead, now.place)),
            ahead.eq(index),
            ends.eq(index + 1 == now.entry.rows),
            header.nodes.eq(Mux(joined, self.rows, 1)),
            header.hubs.eq(count),
            header.last_part.eq(1),
        ]

        def names(value: Value, final: Value) -> Value:
            """Send a VID, the second of its beat, or the `final` one; return whether it is out."""
            m.d.comb += [
                vid.eq(value),
                last.eq(final),
                out.valid.eq(second | last),
                beat.eq(Mux(second, first_vid | vid << VID_BITS, vid)),
            ]
            with m.If(~out.valid | out.ready):
                m.d.sync += [first_vid.eq(vid), second.eq(~second & ~last)]
            return ~out.valid | out.ready

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += group.ready.eq(1)
                m.d.sync += [
                    now.eq(group.payload),
                    rest.eq(group.payload.entry.hubs),
                    *(start.eq(0) for start in (index, count, low, inside, after)),
                    joined.eq(group.payload.entry.rows == self.rows),
                ]
                with m.If(group.valid):
                    m.next = "LOOK"
            with m.State("LOOK"):
                # Hub by hub: it costs less than a row, and next to no LUTs. No one follows a zero behind the first one.
                m.d.sync += [
                    rest.eq(rest >> 1),
                    inside.eq(inside | rest[0]),
                    after.eq(after | (inside & ~rest[0])),
                    joined.eq(joined & ~(after & rest[0])),
                    count.eq(count + rest[0]),
                    low.eq(low + (~inside & ~rest[0])),
                ]
                with m.If(~joined | (rest == 0)):
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                joins = joined & (now.entry.bits >= count * _SHARED)
                m.d.sync += [joined.eq(joins), rest.eq(now.entry.hubs)]
                m.next = "HEADER"
                with m.If(~joins):
                    m.next = "ALONE"
            with m.State("ALONE"):
                m.d.sync += [count.eq(row.count), rest.eq(row.hubs)]
                m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [out.valid.eq(1), beat.eq(header)]
                m.d.sync += bits.eq(1)
                with m.If(out.ready):
                    m.next = "NODES"
            with m.State("NODES"):
                with m.If(names(row.vid, ~joined | ends)):
                    m.d.sync += index.eq(ahead)
                    with m.If(joined):
                        m.d.comb += ahead.eq(Mux(ends, 0, index + 1))
                    with m.If(last):
                        m.next = "HUBS"
            with m.State("HUBS"):
                left = without_lowest(rest)[: self.window]
                base = now.entry.step << self.step_bits
                with m.If(names((base + lowest_one(rest)[1])[: self.vid_bits], left == 0)):
                    m.d.sync += [rest.eq(left), bits.eq(Cat(1, bits))]
                    with m.If(last):
                        m.next = "GIVE"
                        with m.If(joined):
                            m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += ahead.eq(index + 1)
                m.d.sync += bits.eq(Cat(Const(1, self.rows), row.hubs >> low))
                m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += [
                    out.valid.eq(1),
                    beat.eq(bits),
                    out.payload.last.eq(~joined | ends),
                    ahead.eq(index + 1 + (out.ready & joined)),
                ]
                with m.If(out.ready):
                    m.d.sync += index.eq(index + 1)
                    with m.If(joined):
                        m.d.sync += bits.eq(Cat(0, bits[: self.rows - 1], row.hubs >> low))
                    with m.If(ends):
                        m.next = "IDLE"
                    with m.Elif(~joined):
                        m.next = "ALONE"
        m.d.comb += idle.eq(fsm.ongoing("IDLE"))
        with m.If(~idle):
            m.d.comb += out.payload.data.eq(beat)
        m.d.sync += [
            Cover(fsm.ongoing("GIVE") & joined & (low != 0), "a group's hubs begin behind its window"),
            Cover(fsm.ongoing("GIVE") & ~joined & ~ends, "one of several records of a group"),
        ]
        return now.place, idle
