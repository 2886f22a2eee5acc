"""Run control: switches the programs of an array on, waits for their end, and switches them off (D7, D10)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class RunControl(wiring.Component):
    """A run: ON for all processors, until all have halted or the host stops them; OFF; the last results; the end.

    Attributes
    ----------
    start, stop : In(1)
        Begin a run; end the one under way.
    settled : In(1)
        Frames that were taken before the start have been carried out.
    command : stream of unsigned(1)
        1: ON for all processors, 0: OFF.
    online, halted : In(1)
        Of all processors.
    results : In(1)
        A result waits at an edge port.
    end : stream of unsigned(1)
        Follows the last result; 1 if the host stopped the run.
    busy : Out(1)
        From the start to the end.
    closed : Out(1)
        The same without the wait for earlier frames: memories cannot be reached.
    running : Out(1)
        Programs run.
    done : Out(1)
        The run ends in this clock.
    """

    def __init__(self) -> None:
        flag = stream.Signature(unsigned(1))
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "settled": In(1),
                "command": Out(flag),
                "online": In(1),
                "halted": In(1),
                "results": In(1),
                "end": Out(flag),
                "busy": Out(1),
                "closed": Out(1),
                "running": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Walk through a run."""
        m = Module()
        stopped = Signal()
        m.d.comb += [self.end.payload.eq(stopped), self.running.eq(self.online & ~self.halted)]
        with m.FSM() as fsm:
            m.d.comb += [self.busy.eq(~fsm.ongoing("IDLE")), self.closed.eq(self.busy & ~fsm.ongoing("SETTLE"))]
            with m.State("IDLE"):
                m.d.sync += stopped.eq(0)
                with m.If(self.start):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                with m.If(stopped):
                    m.next = "END"
                with m.Elif(self.settled):
                    m.next = "ON"
            with m.State("ON"):
                m.d.comb += [self.command.valid.eq(1), self.command.payload.eq(1)]
                with m.If(self.command.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(self.online):
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(self.halted | stopped):
                    m.next = "OFF"
            with m.State("OFF"):
                m.d.comb += self.command.valid.eq(1)
                with m.If(self.command.ready):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                with m.If(~self.online & ~self.results):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += [self.end.valid.eq(1), self.done.eq(self.end.ready)]
                with m.If(self.end.ready):
                    m.next = "IDLE"
        # Behind the states, so that a stop in the first clock counts. One behind the end of the programs does not.
        with m.If(self.stop & Cat(fsm.ongoing(state) for state in ("SETTLE", "ON", "WAIT", "RUN")).any()):
            m.d.sync += stopped.eq(1)
        m.d.sync += Cover(fsm.ongoing("SETTLE") & stopped, "a run is stopped before it begins")
        return m
