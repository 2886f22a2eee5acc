"""Slot search: walks through all slots for an ID that has no cell in the ID table (A5)."""

from amaranth import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig

__all__ = ["SlotSearch"]


class SlotSearch(wiring.Component):
    """Reads the table's entry of one slot in every cycle and keeps the slot that has the ID.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    start : In(1)
        Begin with slot 0; only while not `busy`.
    busy : Out(1)
        The table reads the entry of `slot` in this cycle.
    slot : Out
    hit : In(1)
        The entry read in the cycle before has the ID.
    ended : Out(1)
        A search has ended, and its result stands in `found` and `address`.
    found : Out(1)
    address : Out
        The slot with the ID.
    forget : In(1)
        The result is used, or no longer valid.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot = range(config.slots)
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "slot": Out(range(config.slots + 1)),
                "hit": In(1),
                "ended": Out(1),
                "found": Out(1),
                "address": Out(slot),
                "forget": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count through the slots; entries come one cycle behind."""
        m = Module()
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), self.slot.eq(0), self.found.eq(0)]
        with m.If(self.busy):
            m.d.sync += self.slot.eq(self.slot + 1)
            with m.If((self.slot != 0) & self.hit):
                m.d.sync += [self.found.eq(1), self.address.eq(self.slot - 1)]
            with m.If(self.slot == self.config.slots):
                m.d.sync += [self.busy.eq(0), self.ended.eq(1)]
        with m.If(self.forget):
            m.d.sync += self.ended.eq(0)
        return m
