"""Replacement keys of the buffer's entries, which go with an entry into the cache and come back with it (A8)."""

from typing import Any

from amaranth import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from contracts import Policy
from hw.attributes.formats import AttributeConfig

__all__ = ["SlotKeys"]


class SlotKeys(wiring.Component):
    """A key for every slot, updated by the requests.

    Inputs describe a request in the cycle of its decision; the next change may follow four cycles later, hits in place
    from the second cycle on.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    counts : In(1)
        A request is carried out.
    touch, cached, moved, missed : In(1)
        It finds its attribute in place; in the cache; at another address; nowhere. At most one.
    slot, address, way_key : In
        Target slot; where a moved attribute was; the key that a cached one had.
    enters : In(1)
        The cycle after: what was at the target slot goes into the cache.
    cache_key : Out
        In that cycle: with this key.
    degree_write, degree_slot, degree : In
        A row has arrived, and its node's degree (`Policy.DEGREE`); only while `degree_ready`.
    degree_ready : Out(1)
        No other key is written in this cycle.
    flush : In(1)
        Count from zero.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot, key = range(config.slots), config.key_bits
        super().__init__(
            {
                "counts": In(1),
                "touch": In(1),
                "cached": In(1),
                "moved": In(1),
                "missed": In(1),
                "slot": In(slot),
                "address": In(slot),
                "way_key": In(key),
                "enters": In(1),
                "cache_key": Out(key),
                "degree_write": In(1),
                "degree_slot": In(slot),
                "degree": In(key),
                "degree_ready": Out(1),
                "flush": In(1),
            }
        )

    def _touched(self, key: Any, stamp: Any) -> Any:
        """Key of an entry after a request for it."""
        if self.config.policy in (Policy.LRU, Policy.MRU):
            return stamp
        if self.config.policy == Policy.SIEVE:
            return key | 1
        return Mux(key.all(), key, key + 1) if self.config.policy == Policy.LFU else key

    def elaborate(self, platform: object) -> Elaboratable:
        """Count entries of the cache, or keep a memory of keys."""
        m = Module()
        config = self.config
        m.d.comb += self.degree_ready.eq(1)
        entries = Signal(config.key_bits - (config.policy == Policy.SIEVE))
        if not config.slot_keys or config.policy == Policy.SIEVE:
            m.d.sync += entries.eq(Mux(self.flush, 0, entries + self.enters))
        if not config.slot_keys:
            m.d.comb += self.cache_key.eq(entries)
            return m

        m.submodules.keys = keys = Memory(shape=config.key_bits, depth=config.slots, init=[])
        write = keys.write_port()
        # A key that is written while it is read is read as written: two touches may follow each other.
        read = keys.read_port(transparent_for=(write,))
        stamp = Signal(32)
        m.d.sync += stamp.eq(Mux(self.flush, 0, stamp + self.counts))

        touched, cached, moved, missed = (
            Signal(name=f"was_{name}") for name in ("touched", "cached", "moved", "missed")
        )
        returning, giving = Signal(), Signal()  # third and fourth cycle of a move
        slot, address = Signal.like(self.slot), Signal.like(self.address)
        way_key, own_stamp, other = (Signal(config.key_bits, name=name) for name in ("way_key", "own_stamp", "other"))
        m.d.sync += [
            touched.eq(self.touch),
            cached.eq(self.cached),
            moved.eq(self.moved),
            missed.eq(self.missed),
            returning.eq(moved),
            giving.eq(returning),
        ]
        with m.If(self.touch | self.cached | self.moved | self.missed):
            m.d.sync += [slot.eq(self.slot), address.eq(self.address), way_key.eq(self.way_key), own_stamp.eq(stamp)]
        m.d.comb += [
            read.en.eq(1),
            read.addr.eq(Mux(moved, address, self.slot)),
            self.cache_key.eq(Cat(read.data[0], entries) if config.policy == Policy.SIEVE else read.data),
            write.addr.eq(slot),
        ]
        with m.If(moved):
            m.d.sync += other.eq(read.data)
        if config.policy != Policy.DEGREE:
            with m.If(touched):
                m.d.comb += [write.en.eq(1), write.data.eq(self._touched(read.data, own_stamp))]
            with m.If(missed):
                first = {Policy.LFU: 1, Policy.SIEVE: 0}.get(config.policy, own_stamp)
                m.d.comb += [write.en.eq(1), write.data.eq(first)]
        with m.If(cached):
            m.d.comb += [write.en.eq(1), write.data.eq(self._touched(way_key, own_stamp))]
        with m.If(returning):
            m.d.comb += [write.en.eq(1), write.data.eq(self._touched(read.data, own_stamp))]
        with m.If(giving):
            m.d.comb += [write.en.eq(1), write.addr.eq(address), write.data.eq(other)]
        if config.policy == Policy.DEGREE:
            m.d.comb += self.degree_ready.eq(~(cached | returning | giving))
            with m.If(self.degree_write):
                m.d.comb += [write.en.eq(1), write.addr.eq(self.degree_slot), write.data.eq(self.degree)]
        return m
