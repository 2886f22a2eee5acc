"""Write fence: waits until what is on its way to memory can be read there."""

from amaranth.hdl import Assert, Cover, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FENCE", "WriteFence"]

#: Ports of what waits for its writes, to the memory port: see `hw.memory.write_port.WritePort`.
FENCE = {"mark": Out(1), "answered": In(1)}


class WriteFence(wiring.Component):
    """Counts what has begun its way and is not written, and marks the last of it in the write port.

    One wait at a time, at most twice the latency of the memory, whatever comes meanwhile.

    Parameters
    ----------
    most
        Fewer than this are on their way at once.
    settles
        Cycles after which a beat that was taken is in the scratchpad, if it belongs there.

    Attributes
    ----------
    runs : In(1)
        While it is 0 nothing is on its way, and nothing is waited for.
    begun : In(1)
        Pulse: something begins its way to the memory port.
    written : In(1)
        Pulse: the memory port has taken something as a whole. All stays in order.
    asks : In(1)
        Wait for what has begun.
    asked : Out(1)
        Pulse: the wait begins, for what has begun up to this cycle, it included.
    done : Out(1)
        Pulse: what begun up to `asked` can be read.
    mark, answered
        As in `FENCE`.

    Raises
    ------
    ValueError
        If `most` is below 2.
    """

    def __init__(self, most: int = 64, settles: int = 4) -> None:
        if most < 2:
            raise ValueError(f"most must be at least 2, not {most!r}")
        self.most, self.settles = most, settles
        super().__init__(
            {
                **{name: In(1) for name in ("runs", "begun", "written", "asks")},
                **{name: Out(1) for name in ("asked", "done")},
                **FENCE,
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Wait for the write port to take it, then for the answer, or as long as the scratchpad may need."""
        m = Module()
        under_way, left, settles = Signal(range(self.most)), Signal(range(self.most)), Signal(range(self.settles + 1))
        m.d.sync += under_way.eq(under_way + self.begun - self.written)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.asked.eq(self.asks & self.runs)
                with m.If(self.asked):
                    m.d.sync += left.eq(under_way + self.begun - self.written)
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.sync += [left.eq(left - self.written), settles.eq(0)]
                with m.If(left == 0):
                    m.d.comb += self.mark.eq(1)
                    m.next = "ANSWER"
                with m.If(~self.runs):
                    m.next = "IDLE"
            with m.State("ANSWER"):
                m.d.sync += settles.eq(settles + (settles != self.settles))
                m.d.comb += self.done.eq(self.answered & (settles == self.settles) & self.runs)
                with m.If(self.done | ~self.runs):
                    m.next = "IDLE"
        with m.If(~self.runs):
            m.d.sync += under_way.eq(0)
        m.d.sync += [
            Assert(~self.runs | ~self.begun | self.written | (under_way != self.most - 1), "what begins is counted"),
            Cover(fsm.ongoing("ANSWER") & self.begun, "more begins while some is waited for"),
        ]
        return m
