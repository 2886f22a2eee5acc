"""Attribute processor: brings each attribute to its target address in the buffer (A3-A7, A10).

Requests take effect in their order, on ID table, cache and keys at once; rows follow. So what is hit, missed, swapped
and evicted does not depend on when the memory answers. A row on its way from memory has its slot and its ID in the
table already, and the slot is marked: a request that wants that ID or that slot waits, all others go on (hit under
miss). When the row has arrived the mark goes; if the memory failed, the ID leaves the table again, so no entry is ever
half written.
"""

from typing import Any

from amaranth import Const, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.hdl import Assert, Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error, Flow, Policy
from hw.attributes.attribute_cache import AttributeCache
from hw.attributes.fill_unit import FillUnit
from hw.attributes.formats import AttributeConfig, AttributeSettings, MoveKind
from hw.attributes.id_table import IDTable, TableChange
from hw.attributes.request_queue import RequestQueue
from hw.attributes.row_finder import RowFinder
from hw.attributes.row_store import RowStore
from hw.attributes.slot_keys import SlotKeys
from hw.memory.formats import ReadBeat, ReadRequest
from hw.stream.queue import Queue

__all__ = ["AttributeProcessor"]

#: Cycles from presenting a look-up to its results.
_TABLE_STAGES = 3
#: Responses that may wait.
_RESPONSES = 4


class AttributeProcessor(wiring.Component):
    """Attribute RAM of two levels with all that fills it.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`, constant while `idle` is 0.
    i : stream of ``config.request``
    responses : stream of ``config.response``
        One for each request, those that wait for memory later than those that hit. ``error``: ``MEMORY_READ`` or
        ``VID_RANGE``.
    rows : stream of ``config.row``
        Rows of the requests with ``read`` that did not fail, each with its request's tag. Both streams have to be
        taken independently of each other.
    event : Out, ``config.event`` and ``event_valid``
        What every request did, in order (observed by tests and counters).
    flush : In(1)
        Forget all attributes; only while `idle`.
    idle : Out(1)
        No request is under way.
    requests, beats
        Clients' ends of the read arbiter: attributes, and offsets where the policy needs degrees.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, config: AttributeConfig | None = None) -> None:
        self.config = config = config or AttributeConfig()
        port = (config.address_width, config.data_width)
        #: Read clients.
        self.clients = 2 if config.policy == Policy.DEGREE else 1
        super().__init__(
            {
                "settings": In(AttributeSettings(config)),
                "i": In(stream.Signature(config.request)),
                "responses": Out(stream.Signature(config.response)),
                "rows": Out(stream.Signature(config.row)),
                "event_valid": Out(1),
                "event": Out(config.event),
                "flush": In(1),
                "idle": Out(1),
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.clients),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(self.clients),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the parts; the decision is the only place where their state changes."""
        m = Module()
        config = self.config
        m.submodules.request_queue = requests = RequestQueue(config)
        m.submodules.table = table = IDTable(config)
        m.submodules.cache = cache = AttributeCache(config)
        m.submodules.slot_keys = keys = SlotKeys(config)
        m.submodules.store = store = RowStore(config)
        m.submodules.fills = fills = FillUnit(config)
        m.submodules.responses = responses = Queue(config.response, _RESPONSES)
        connect(m, flipped(self.i), requests.i)
        connect(m, store.rows, flipped(self.rows))
        connect(m, fills.fill, store.fill)
        connect(m, fills.request, flipped(self.requests[0]))
        connect(m, flipped(self.beats[0]), fills.beat)
        connect(m, responses.o, flipped(self.responses))
        m.d.comb += [
            fills.settings.eq(self.settings),
            store.beats.eq(self.settings.beats),
            fills.hold.eq(store.busy & (store.active.kind == MoveKind.COPY)),
            fills.hold_row.eq(store.active.first),
            table.flush.eq(self.flush),
            cache.flush.eq(self.flush),
        ]

        # Look-ups: stages of requests beside the table's and the cache's own. Sequential: the table one stage later.
        stages = _TABLE_STAGES + 1 + config.sequential
        stage = data.StructLayout({"request": config.request, "refused": 1})
        pipe = [Signal(stage, name=f"stage_{n}") for n in range(stages)]
        valid = Signal(stages)
        run, flushed = Signal(), Signal()
        m.d.comb += [
            requests.advance.eq(run & requests.ahead_valid & table.ready),
            table.run.eq(run),
            table.id.eq(pipe[int(config.sequential)].request.id),
            table.slot.eq(pipe[int(config.sequential)].request.slot),
            cache.run.eq(run),
            cache.id.eq(pipe[0].request.id),
        ]
        with m.If(run):
            m.d.sync += [
                pipe[0].request.eq(requests.ahead),
                # IDs that do not fit must not look like others.
                pipe[0].refused.eq(
                    (requests.ahead.id >= self.settings.nodes) | requests.ahead.id[config.id_bits :].any()
                ),
                valid.eq((valid << 1) | requests.advance),
            ]
            m.d.sync += [pipe[n].eq(pipe[n - 1]) for n in range(1, stages)]
        with m.If(flushed):
            m.d.sync += valid.eq(0)
        cached, way, way_key = cache.hit, cache.way, cache.key
        for n in range(stages - 3):
            later = [Signal.like(signal, name=f"{signal.name}_{n}") for signal in (cached, way, way_key)]
            with m.If(run):
                m.d.sync += [new.eq(old) for new, old in zip(later, (cached, way, way_key), strict=True)]
            cached, way, way_key = later

        # The decision.
        decided = pipe[-1]
        request = decided.request
        identity = request.id[: config.id_bits]
        refused = decided.refused
        arriving = Signal(config.slots)
        searched, search_found, searched_address = Signal(), Signal(), Signal(range(config.slots))
        address = Mux(searched, searched_address, table.address)
        elsewhere = Mux(searched, search_found, table.found)
        conflict, unknown, unsure = Signal(), Signal(), Signal()
        # Marks are looked up a cycle before they are needed. One set after that belongs to a miss, which rewinds all
        # look-ups; one that is gone by then costs another look-up.
        under_way = Signal(range(config.outstanding + 4))
        target_arriving, address_arriving, any_arriving, checked = Signal(), Signal(), Signal(), Signal()
        with m.If(run):
            m.d.sync += target_arriving.eq(arriving.bit_select(pipe[-2].request.slot, 1))
        m.d.sync += [
            address_arriving.eq(arriving.bit_select(address, 1)),
            any_arriving.eq(under_way != 0),
        ]
        in_place, hit_cache, moved, missed = (
            Signal(name=f"is_{name}") for name in ("here", "cached", "moved", "missed")
        )
        m.d.comb += [
            unsure.eq(~refused & ~table.in_place & ~cached & elsewhere & any_arriving & ~checked),
            conflict.eq(target_arriving | (moved & any_arriving & address_arriving)),
            in_place.eq(~refused & table.in_place),
            hit_cache.eq(~refused & ~table.in_place & cached),
            moved.eq(~refused & ~table.in_place & ~cached & elsewhere),
            missed.eq(~refused & ~table.in_place & ~cached & ~elsewhere),
            unknown.eq(missed & table.unlisted & ~searched),
        ]
        flow = Signal(unsigned(len(Flow).bit_length()))
        m.d.comb += flow.eq(
            Mux(
                refused,
                Flow.REFUSED,
                Mux(in_place, Flow.IN_PLACE, Mux(hit_cache, Flow.CACHED, Mux(moved, Flow.MOVED, Flow.MISSED))),
            )
        )

        # What a landed row and a decision need at once: the row store, a place for the response, the table.
        landed, row = fills.landed, fills.landed.payload.missing
        landing, clearing, commits = Signal(), Signal(), Signal()
        degree_ready, degree_able = self._degrees(m, keys, landing, commits & missed, identity, row.slot)
        store_ready, response_ready = store.i.ready, responses.i.ready
        second, searching = Signal(), Signal()
        m.d.comb += [
            landing.eq(
                landed.valid
                & degree_ready
                & response_ready
                & (landed.payload.error | ~row.read | store_ready)
                & (~landed.payload.error | (~second & ~searching))
            ),
            clearing.eq(landing & landed.payload.error),
            landed.ready.eq(landing),
        ]
        waits, stay = Signal(), Signal()
        needs_store = hit_cache | moved | (missed & table.occupied) | (in_place & request.read)
        answers = refused | in_place | hit_cache | moved
        able = (
            (~answers | response_ready)
            & (~needs_store | store_ready)
            & (~missed | (fills.i.ready & degree_able))
            & (~(missed & table.occupied) | cache.room)
            & ~unsure
        )
        # Rows moved into their place are read afterwards, in a move of their own.
        follows = Signal()
        deciding = valid[-1] & ~second & ~searching & ~clearing & ~follows
        change = Signal()
        m.d.comb += [
            waits.eq(deciding & ~refused & ~unsure & conflict),
            commits.eq(deciding & (refused | ~conflict) & ~unknown & ~landing & able),
            change.eq(commits & (hit_cache | moved | missed)),
            stay.eq((deciding & ~commits & ~waits) | follows),
            flushed.eq(change | waits | clearing),
            run.eq(table.ready & ~(stay | change | searching)),
            requests.retire.eq(commits),
            requests.rewind.eq(flushed),
        ]
        m.d.sync += [second.eq(change), checked.eq(deciding & stay)]

        # A search through all slots, for an ID that found no cell.
        at = Signal(range(config.slots + 1))
        begins = deciding & unknown & ~conflict & ~clearing
        m.d.comb += [table.search.eq(searching), table.search_slot.eq(at)]
        with m.If(begins):
            m.d.sync += [searching.eq(1), at.eq(0), search_found.eq(0)]
        with m.If(searching):
            m.d.sync += at.eq(at + 1)
            with m.If((at != 0) & table.search_hit):
                m.d.sync += [search_found.eq(1), searched_address.eq(at - 1)]
            with m.If(at == config.slots):
                m.d.sync += [searching.eq(0), searched.eq(1)]
        with m.If(flushed | commits):
            m.d.sync += searched.eq(0)

        # First cycle of a change, and the second.
        was_cached, was_moved, was_missed, was_occupied = (
            Signal(name=f"was_{n}") for n in ("cached", "moved", "missed", "occupied")
        )
        place, origin = Signal.like(cache.way, name="place"), Signal(range(config.slots), name="origin")
        by_search = Signal()
        with m.If(change):
            m.d.comb += table.change.eq(Mux(moved, TableChange.MOVE, TableChange.DISPLACE))
            m.d.sync += [
                was_cached.eq(hit_cache),
                was_moved.eq(moved),
                was_missed.eq(missed),
                was_occupied.eq(table.occupied),
                place.eq(Mux(hit_cache, way, cache.place)),
                origin.eq(address),
                by_search.eq(searched),
            ]
        m.d.comb += [
            table.by_search.eq(Mux(second, by_search, searched)),
            table.searched_address.eq(Mux(second, origin, searched_address)),
            table.clear_slot.eq(row.slot),
            table.clear_id.eq(row.id),
            table.clear_cell.eq(row.cell),
            cache.write.eq(second & (was_cached | (was_missed & was_occupied))),
            cache.write_way.eq(place),
            cache.write_valid.eq(was_occupied),
            cache.write_id.eq(table.occupant),
        ]
        with m.If(second):
            m.d.comb += table.change.eq(Mux(was_moved, TableChange.MOVE_OTHER, TableChange.PLACE))
        with m.If(clearing):
            m.d.comb += table.change.eq(TableChange.CLEAR)

        # Rows.
        read_slot, read_tag = Signal(range(config.slots)), Signal(config.tag_bits)
        move = store.i.payload
        with m.If(commits & ~refused & request.read & (hit_cache | moved)):
            m.d.sync += [follows.eq(1), read_slot.eq(request.slot), read_tag.eq(request.tag)]
        with m.If(landing & row.read & ~landed.payload.error):
            m.d.comb += [
                store.i.valid.eq(1),
                move.kind.eq(MoveKind.READ),
                move.first.eq(row.slot),
                move.tag.eq(row.tag),
            ]
        with m.Elif(follows):
            m.d.comb += [
                store.i.valid.eq(1),
                move.kind.eq(MoveKind.READ),
                move.first.eq(read_slot),
                move.tag.eq(read_tag),
            ]
            with m.If(store_ready):
                m.d.sync += follows.eq(0)
        with m.Else():
            m.d.comb += [store.i.valid.eq(commits & needs_store), move.first.eq(request.slot), move.tag.eq(request.tag)]
            with m.If(in_place):
                m.d.comb += move.kind.eq(MoveKind.READ)
            with m.Elif(missed):
                m.d.comb += [move.kind.eq(MoveKind.COPY), move.second.eq(config.slots + cache.place)]
            with m.Else():
                m.d.comb += [move.kind.eq(MoveKind.SWAP), move.second.eq(Mux(hit_cache, config.slots + way, address))]
        m.d.comb += [
            fills.i.valid.eq(commits & missed),
            fills.i.payload.id.eq(identity),
            fills.i.payload.slot.eq(request.slot),
            fills.i.payload.cell.eq(table.placed_cell),
            fills.i.payload.read.eq(request.read),
            fills.i.payload.tag.eq(request.tag),
        ]
        for slot in range(config.slots):
            with m.If(landing & (row.slot == slot)):
                m.d.sync += arriving[slot].eq(0)
            with m.Elif(commits & missed & (request.slot == slot)):
                m.d.sync += arriving[slot].eq(1)

        # Responses and events.
        response = responses.i.payload
        m.d.comb += responses.i.valid.eq(landing | (commits & answers))
        with m.If(landing):
            m.d.comb += [
                response.tag.eq(row.tag),
                response.flow.eq(Flow.MISSED),
                response.error.eq(Mux(landed.payload.error, Error.MEMORY_READ, Error.NONE)),
            ]
        with m.Else():
            m.d.comb += [
                response.tag.eq(request.tag),
                response.flow.eq(flow),
                response.error.eq(Mux(refused, Error.VID_RANGE, Error.NONE)),
            ]
        m.d.sync += [
            self.event_valid.eq(commits),
            self.event.id.eq(request.id),
            self.event.slot.eq(request.slot),
            self.event.flow.eq(flow),
            self.event.displaced_valid.eq(change & table.occupied),
            self.event.displaced.eq(table.occupant),
            self.event.evicted_valid.eq(missed & table.occupied & cache.leaves),
            self.event.evicted.eq(cache.leaver),
        ]
        m.d.comb += [
            keys.counts.eq(commits & ~refused),
            keys.touch.eq(commits & in_place),
            keys.cached.eq(commits & hit_cache),
            keys.moved.eq(commits & moved),
            keys.missed.eq(commits & missed),
            keys.slot.eq(request.slot),
            keys.address.eq(address),
            keys.way_key.eq(way_key),
            keys.enters.eq(cache.write & cache.write_valid),
            keys.flush.eq(self.flush),
            cache.write_key.eq(keys.cache_key),
        ]

        m.d.sync += under_way.eq(under_way + (commits & missed) - landing)
        m.d.comb += self.idle.eq(requests.empty & (under_way == 0) & ~second & ~follows & ~store.busy & table.ready)
        m.d.sync += [
            Assert(~(valid[-1] & cached & table.found & ~refused), "an ID is in both levels"),
            Cover(waits, "a request waits for a row on its way"),
            Cover(commits & in_place & (under_way != 0), "a hit under a miss"),
            Cover(clearing, "a row that was asked for did not come"),
        ]
        return m

    def _degrees(
        self, m: Module, keys: SlotKeys, landing: Signal, missing: Any, identity: Any, slot: Any
    ) -> tuple[Any, Any]:
        """Look up degrees of missing nodes where the policy wants them: what landings and misses wait for."""
        config = self.config
        if config.policy != Policy.DEGREE:
            return Const(1), Const(1)
        m.submodules.finder = finder = RowFinder(config.address_width, config.data_width)
        connect(m, finder.request, flipped(self.requests[1]))
        connect(m, flipped(self.beats[1]), finder.beat)
        most = (1 << config.key_bits) - 1
        length = finder.o.payload.length
        m.d.comb += [
            finder.settings.offsets.eq(self.settings.offsets),
            finder.settings.edge_count.eq(self.settings.edge_count),
            finder.settings.tiles.eq(self.settings.tiles),
            finder.i.valid.eq(missing),
            finder.i.payload.eq(identity),
            finder.o.ready.eq(landing),
            keys.degree_write.eq(landing),
            keys.degree_slot.eq(slot),
            keys.degree.eq(Mux(length > most, most, length)),
        ]
        return finder.o.valid & keys.degree_ready, finder.i.ready
