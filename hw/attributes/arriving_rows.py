"""Arriving rows: which slots wait for their row from memory (A3, A7c)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.flows import Marks
from hw.attributes.formats import AttributeConfig

__all__ = ["ArrivingRows"]


class ArrivingRows(wiring.Component):
    """A mark for every slot, and the number of rows under way.

    Marks are read one cycle before they are used. A mark that is set after that belongs to a miss, which drops all
    look-ups; a mark that has been cleared by then costs another look-up.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    run, next_slot : In
        The pipeline of look-ups advances, and the target slot that is decided next.
    address : In
        Slot of an attribute that is in the buffer.
    marks : Out
        `Marks` for the request to be decided.
    under_way : Out(1)
        A row is under way.
    begin, begin_slot : In
        A row is requested.
    end, end_slot : In
        A row has arrived, or has failed.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot = range(config.slots)
        super().__init__(
            {
                "run": In(1),
                "next_slot": In(slot),
                "address": In(slot),
                "marks": Out(Marks),
                "under_way": Out(1),
                "begin": In(1),
                "begin_slot": In(slot),
                "end": In(1),
                "end_slot": In(slot),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Set, clear and read the marks."""
        m = Module()
        marked = Signal(self.config.slots)
        count = Signal(range(self.config.outstanding + 4))
        for slot in range(self.config.slots):
            with m.If(self.end & (self.end_slot == slot)):
                m.d.sync += marked[slot].eq(0)
            with m.Elif(self.begin & (self.begin_slot == slot)):
                m.d.sync += marked[slot].eq(1)
        with m.If(self.run):
            m.d.sync += self.marks.target.eq(marked.bit_select(self.next_slot, 1))
        m.d.sync += [
            self.marks.address.eq(marked.bit_select(self.address, 1)),
            self.marks.any.eq(count != 0),
            count.eq(count + self.begin - self.end),
        ]
        m.d.comb += self.under_way.eq(count != 0)
        return m
