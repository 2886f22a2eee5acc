"""Directory: the IDs of both levels and their keys, looked up and changed together (A5, A6, A8)."""

from amaranth import Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Policy
from hw.attributes.attribute_cache import AttributeCache
from hw.attributes.degree_finder import DegreeFinder
from hw.attributes.flows import Effect, Found, Missing
from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.attributes.id_table import IDTable
from hw.attributes.slot_keys import SlotKeys
from hw.attributes.slot_search import SlotSearch
from hw.attributes.table_changer import TableChanger
from hw.memory.formats import ReadBeat, ReadRequest

__all__ = ["Directory"]

#: Cycles from asking table and cache for an ID to their results.
_TABLE_STAGES, _CACHE_STAGES = 3, 2


class Directory(wiring.Component):
    """ID table and cache, asked side by side and answered in the same cycle, with the keys of their entries.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`.
    run : In(1)
        Look-ups advance; otherwise `found` stays.
    cache_id, table_id, table_slot : In
        ID to ask the cache for; ID and target slot to ask the table for, one cycle later if ``config.sequential``.
    found : Out
        `Found`, three cycles after the table was asked.
    ready : Out(1)
        The table can be asked.
    slot, id : In
        Target slot and ID of the look-up in `found`.
    search : In(1)
        Search all slots for its ID.
    searching : Out(1)
        A search is under way.
    forget : In(1)
        The result of the search is used, or the look-up is dropped.
    effect : In
        `Effect` of the request in `found`.
    second : Out(1)
        Second cycle of its change.
    degree_ready : Out(1)
        A request may miss: the degree of its node can be found.
    landed : In
        `Missing`, a row that has arrived.
    failed : In(1)
        It could not be read, so its ID leaves the table.
    landing_ready : Out(1)
        It may land.
    landing : In(1)
        It lands; with `landing_ready` only.
    flush : In(1)
        Forget everything.
    requests, beats
        Clients' ends of the read arbiter, for degrees: one or none.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port, slot = (config.address_width, config.data_width), range(config.slots)
        #: Read clients.
        self.clients = 1 if config.policy == Policy.DEGREE else 0
        super().__init__(
            {
                "settings": In(AttributeSettings(config)),
                "run": In(1),
                "cache_id": In(config.id_bits),
                "table_id": In(config.id_bits),
                "table_slot": In(slot),
                "found": Out(Found(config)),
                "ready": Out(1),
                "slot": In(slot),
                "id": In(config.id_bits),
                "search": In(1),
                "searching": Out(1),
                "forget": In(1),
                "effect": In(Effect),
                "second": Out(1),
                "degree_ready": Out(1),
                "landed": In(Missing(config)),
                "failed": In(1),
                "landing_ready": Out(1),
                "landing": In(1),
                "flush": In(1),
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.clients),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(self.clients),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect table, search, cache and keys to look-ups and to their changes."""
        m = Module()
        config, effect, met, found, landed = self.config, self.effect, self.effect.met, self.found, self.landed
        m.submodules.table = table = IDTable(config)
        m.submodules.search = search = SlotSearch(config)
        m.submodules.changer = changer = TableChanger(config)
        m.submodules.cache = cache = AttributeCache(config)
        m.submodules.slot_keys = keys = SlotKeys(config)
        clearing = Signal()
        m.d.comb += [
            self.ready.eq(table.ready),
            table.flush.eq(self.flush),
            table.run.eq(self.run),
            table.id.eq(self.table_id),
            table.slot.eq(self.table_slot),
            found.in_place.eq(table.in_place),
            found.elsewhere.eq(Mux(search.ended, search.found, table.found)),
            found.address.eq(Mux(search.ended, search.address, table.address)),
            found.occupied.eq(table.occupied),
            found.occupant.eq(table.occupant),
            found.unlisted.eq(table.unlisted & ~search.ended),
            found.cell.eq(table.placed_cell),
            search.start.eq(self.search),
            search.forget.eq(self.forget),
            search.hit.eq(table.search_hit),
            table.search.eq(search.busy),
            table.search_slot.eq(search.slot),
            self.searching.eq(search.busy),
            changer.effect.eq(effect),
            changer.found.eq(found),
            changer.searched.eq(search.ended),
            changer.clear.eq(clearing),
            self.second.eq(changer.second),
            table.change.eq(changer.change),
            table.by_search.eq(changer.by_search),
            table.searched_address.eq(changer.searched_address),
            clearing.eq(self.landing & self.failed),
            table.clear_slot.eq(landed.slot),
            table.clear_id.eq(landed.id),
            table.clear_cell.eq(landed.cell),
            cache.flush.eq(self.flush),
            cache.run.eq(self.run),
            cache.id.eq(self.cache_id),
            found.room.eq(cache.room),
            found.place.eq(cache.place),
            found.leaves.eq(cache.leaves),
            found.leaver.eq(cache.leaver),
            cache.write.eq(changer.cache_write),
            cache.write_way.eq(changer.cache_way),
            cache.write_valid.eq(changer.cache_valid),
            cache.write_id.eq(table.occupant),
            cache.write_key.eq(keys.cache_key),
            keys.flush.eq(self.flush),
            keys.counts.eq(effect.commits & ~met.refused),
            keys.touch.eq(effect.commits & met.in_place),
            *(getattr(keys, name).eq(effect.commits & met[name]) for name in ("cached", "moved", "missed")),
            keys.slot.eq(self.slot),
            keys.address.eq(found.address),
            keys.way_key.eq(found.way_key),
            keys.enters.eq(changer.cache_write & changer.cache_valid),
        ]
        if config.policy == Policy.SIEVE:
            m.d.comb += cache.evicts.eq(changer.cache_evicts)
        # Results of the cache come earlier than those of the table.
        results: tuple[Value, ...] = (cache.hit, cache.way, cache.key)
        for n in range(_TABLE_STAGES + config.sequential - _CACHE_STAGES):
            later = tuple(Signal.like(signal, name=f"later_{n}_{k}") for k, signal in enumerate(results))
            with m.If(self.run):
                m.d.sync += [new.eq(old) for new, old in zip(later, results, strict=True)]
            results = later
        m.d.comb += [
            out.eq(result) for out, result in zip((found.cached, found.way, found.way_key), results, strict=True)
        ]

        degree_there: Value = Const(1)
        if config.policy == Policy.DEGREE:
            m.submodules.degrees = degrees = DegreeFinder(config)
            connect(m, degrees.request, flipped(self.requests[0]))
            connect(m, flipped(self.beats[0]), degrees.beat)
            degree_there = degrees.o.valid & keys.degree_ready
            m.d.comb += [
                degrees.settings.eq(self.settings),
                degrees.i.valid.eq(effect.commits & met.missed),
                degrees.i.payload.eq(self.id),
                self.degree_ready.eq(degrees.i.ready),
                degrees.o.ready.eq(self.landing),
                keys.degree_write.eq(self.landing),
                keys.degree_slot.eq(landed.slot),
                keys.degree.eq(degrees.o.payload),
            ]
        else:
            m.d.comb += self.degree_ready.eq(1)
        m.d.comb += self.landing_ready.eq(degree_there & (~self.failed | (~changer.second & ~search.busy)))
        return m
