"""Location: the LOCATE that goes on beside other commands, and the one whose records can be replayed."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import COMMANDS, Error, Opcode
from hw.contracts import struct
from hw.graph.formats import ErrorReport

__all__ = ["Location"]

#: Operands on which a location depends, beside the graph in the memory.
_DEPENDS_ON = (
    "first_vertex", "vertices", "offsets", "edges", "edge_count", "halving", "by_degrees", "threshold",
    "skips", "step", "rounds", "c_max", "h_max",
)  # fmt: skip


class Location(wiring.Component):
    """Begins one location at a time, or replays the records of the last one if it would find the same.

    Attributes
    ----------
    command : In
        LOCATE, its addresses counted from 0; constant while `ask` is 1.
    ask : In(1)
        Begin; until `begins`, and only while there is no location.
    begins : Out(1)
        It begins in this cycle.
    o : stream of LOCATE commands, located : stream of `ErrorReport`
        To the locator and from it.
    records_whole : In(1), replay : Out(1)
        The records of the last location are there; give them out again.
    forget : In(1)
        The memory may have changed: the records of the last location are of no use.
    ends : In(1)
        The records have been used or discarded.
    locating : Out(1)
        From the cycle after `begins` until `ends`.
    answered : Out(1), report : Out
        The locator has ended, and its error; a replay has at once.
    first, vertices : Out(32)
        Vertices of the location, from the first one.
    """

    def __init__(self) -> None:
        command = struct(COMMANDS[Opcode.LOCATE])
        super().__init__(
            {
                "command": In(command),
                "ask": In(1),
                "begins": Out(1),
                "o": Out(stream.Signature(command)),
                "located": In(stream.Signature(ErrorReport)),
                "records_whole": In(1),
                "replay": Out(1),
                "forget": In(1),
                "ends": In(1),
                "locating": Out(1),
                "answered": Out(1),
                "report": Out(ErrorReport),
                "first": Out(32),
                "vertices": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare with the last location; begin, or replay."""
        m = Module()
        found, kept = Signal(self.command.shape()), Signal()
        same = Cat(found[name] == self.command[name] for name in _DEPENDS_ON).all()
        again = kept & self.records_whole & same
        answers = self.located.valid & self.located.ready
        m.d.comb += [
            self.first.eq(found.first_vertex),
            self.vertices.eq(found.vertices),
            self.o.payload.eq(self.command),
            self.o.valid.eq(self.ask & ~again),
            self.replay.eq(self.ask & again),
            self.begins.eq(self.ask & (again | self.o.ready)),
            self.located.ready.eq(self.locating & ~self.answered),
        ]
        with m.If(answers):
            m.d.sync += [self.answered.eq(1), self.report.eq(self.located.payload)]
        with m.If(self.forget | (answers & (self.located.payload.code != Error.NONE))):
            m.d.sync += kept.eq(0)
        with m.If(self.ends):
            m.d.sync += self.locating.eq(0)
        with m.If(self.begins):
            m.d.sync += [
                self.locating.eq(1),
                self.answered.eq(again),
                self.report.eq(0),
                found.eq(self.command),
                kept.eq(1),
            ]
        return m
