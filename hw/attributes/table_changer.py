"""Table changer: the two cycles in which a request changes the ID table and the cache (A7)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.flows import Effect, FlowBits, Found, way_shape
from hw.attributes.formats import AttributeConfig
from hw.attributes.table_formats import TableChange

__all__ = ["TableChanger"]


class TableChanger(wiring.Component):
    """Empties the target slot in the first cycle, and puts both entries in their new places in the second.

    The results of the look-up stand still in both cycles.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    effect : In
        `Effect`; with ``change``, this is the first cycle.
    found : In
        `Found`.
    searched : In(1)
        A search has found the address.
    clear : In(1)
        The ID of a row that has failed leaves the table, in a cycle that is neither the first nor the second.
    second : Out(1)
        Second cycle of a change.
    change : Out(TableChange)
    by_search, searched_address : Out
        To the table: the ID that moves has been found by a search, at that slot.
    cache_write, cache_way, cache_valid, cache_evicts : Out
        To the cache: write the entry of the target slot to that way, or empty it; what is there leaves by its policy.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "effect": In(Effect),
                "found": In(Found(config)),
                "searched": In(1),
                "clear": In(1),
                "second": Out(1),
                "change": Out(TableChange),
                "by_search": Out(1),
                "searched_address": Out(range(config.slots)),
                "cache_write": Out(1),
                "cache_way": Out(way_shape(config)),
                "cache_valid": Out(1),
                "cache_evicts": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep what the second cycle needs."""
        m = Module()
        found, met = self.found, Signal(FlowBits, name="was")
        occupied, searched, leaves = (Signal(name=f"was_{name}") for name in ("occupied", "searched", "leaving"))
        way, address = Signal.like(found.way, name="kept_way"), Signal.like(found.address, name="kept_address")
        m.d.sync += self.second.eq(self.effect.change)
        with m.If(self.effect.change):
            m.d.comb += self.change.eq(Mux(self.effect.met.moved, TableChange.MOVE, TableChange.DISPLACE))
            m.d.sync += [
                met.eq(self.effect.met),
                occupied.eq(found.occupied),
                leaves.eq(found.leaves),
                way.eq(Mux(self.effect.met.cached, found.way, found.place)),
                address.eq(found.address),
                searched.eq(self.searched),
            ]
        with m.If(self.second):
            m.d.comb += self.change.eq(Mux(met.moved, TableChange.MOVE_OTHER, TableChange.PLACE))
        with m.If(self.clear):
            m.d.comb += self.change.eq(TableChange.CLEAR)
        m.d.comb += [
            self.by_search.eq(Mux(self.second, searched, self.searched)),
            self.searched_address.eq(Mux(self.second, address, found.address)),
            self.cache_write.eq(self.second & (met.cached | (met.missed & occupied))),
            self.cache_way.eq(way),
            self.cache_valid.eq(occupied),
            self.cache_evicts.eq(self.cache_write & met.missed & leaves),
        ]
        return m
