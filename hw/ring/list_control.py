"""List control: has the needed list made beside the commands that follow its LIST (R6, R15)."""

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import RangeRequest, beat_address_width
from hw.ring.formats import Phase

__all__ = ["ListControl", "ListSettings"]


class ListSettings(data.StructLayout):
    """Operands of a LIST.

    ``boundaries``: word address of the table; ``needed``: beat address of the list; ``others``: `RangeRequest` of the
    VIDs that it has.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        words = RangeRequest(address_width)
        super().__init__(
            {
                "boundaries": words["address"].shape,
                "needed": beat_address_width(address_width, data_width),
                "others": words,
            }
        )


class ListControl(wiring.Component):
    """Steps through boundary table and list, with operands of its own, so that the next command is taken meanwhile.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    start : In(1)
        For a cycle, with `operands`: begin.
    operands : In, settings : Out
        `ListSettings`; kept until the next `start`.
    loaded, listed : In(1)
        The boundary table is read; the needed list is written.
    failed : In(1)
        An error: nothing more is begun, and what is still read goes where it was to go.
    load, build : Out(1)
        For a cycle: start to read the table, to make the list.
    phase : Out(Phase)
        ``LOAD``, ``BUILD``, or ``NONE``: there is nothing to do.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        settings = ListSettings(address_width, data_width)
        super().__init__(
            {
                "start": In(1),
                "operands": In(settings),
                "settings": Out(settings),
                "loaded": In(1),
                "listed": In(1),
                "failed": In(1),
                "load": Out(1),
                "build": Out(1),
                "phase": Out(Phase),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the operands, go through the steps."""
        m = Module()
        begins = Signal()
        m.d.sync += begins.eq(self.start)
        loads = (self.phase == Phase.LOAD) & ~begins & self.loaded
        m.d.comb += [self.load.eq(begins), self.build.eq(loads & ~self.failed)]
        with m.If(self.start):
            m.d.sync += [self.settings.eq(self.operands), self.phase.eq(Phase.LOAD)]
        with m.Elif(self.build):
            m.d.sync += self.phase.eq(Phase.BUILD)
        with m.Elif((self.phase == Phase.BUILD) & self.listed & ~self.failed):
            m.d.sync += self.phase.eq(Phase.NONE)
        return m
