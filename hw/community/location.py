"""Location: the LOCATEs that go on beside other commands, and the one whose records can be replayed."""

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import Error
from hw.graph.formats import ErrorReport
from hw.locator.formats import location_command

__all__ = ["Location"]

#: Operands on which a location depends, beside the graph in the memory.
_DEPENDS_ON = (
    "first_vertex", "vertices", "offsets", "edges", "edge_count", "halving", "by_degrees", "threshold",
    "step", "rounds", "c_max", "h_max",
)  # fmt: skip

#: What is kept of the location before the last one, and its operands.
_USED = {"first": "first_vertex", "vertices": "vertices", "arrival": "arrival"}


class Location(wiring.Component):
    """Begins locations one after another, or replays the records of the last one if it would find the same.

    Records are used in the order of their locations. While those of one are used, one more location can be asked for,
    as that of the next tile. It waits until the locator has found the one before; then it is *ahead* of what is used.

    Parameters
    ----------
    address_width
        Width of a byte address, in bits.

    Attributes
    ----------
    command : In
        `hw.locator.formats.location_command`; constant from the cycle before `ask` on.
    ask : In(1)
        Begin; until `taken`, and only while there is nothing `behind`.
    taken : Out(1)
        It begins in this cycle, or will by itself.
    o : stream of such commands, located : stream of `ErrorReport`
        To the locator and from it.
    records_there : In(1)
        All records of the location that began last have left the locator.
    records_whole : In(1), replay : Out(1)
        The records of the last location are there; give them out again.
    forget : In(1)
        The memory may have changed: the records of the last location are of no use.
    ends : In(1)
        The records have been used or discarded; those of the location behind are next, if there is one.
    locating : Out(1)
        There are records to use, or will be; from the cycle after `taken` until the last one `ends`.
    behind : Out(1)
        There is a location behind the one whose records are used.
    ahead : Out(1)
        It has begun.
    answered : Out(1), report : Out
        The locator has ended, and its error; a replay has at once. Of the location whose records are used.
    odd, odd_found : Out(1)
        Alternate from location to location: of the one whose records are used, and of the one that began last.
    first, vertices : Out(32)
        Vertices of this location, from the first one.
    first_found, vertices_found : Out(32)
        Those of the location that began last.
    arrival_found : Out(5)
        Its ``arrival``.
    """

    def __init__(self, address_width: int) -> None:
        command = location_command(address_width)
        super().__init__(
            {
                "command": In(command),
                "ask": In(1),
                "taken": Out(1),
                "o": Out(stream.Signature(command)),
                "located": In(stream.Signature(ErrorReport)),
                "records_there": In(1),
                "records_whole": In(1),
                "replay": Out(1),
                "forget": In(1),
                "ends": In(1),
                **{name: Out(1) for name in ("locating", "behind", "ahead", "answered", "odd", "odd_found")},
                "report": Out(ErrorReport),
                **{name: Out(32) for name in ("first", "vertices", "first_found", "vertices_found")},
                "arrival_found": Out(5),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare with the last location; begin, replay, or wait for the locator."""
        m = Module()
        # The last LOCATE, which may wait; the vertices and the error of the one before it.
        last, waits, kept = Signal(self.command.shape()), Signal(), Signal()
        used = Signal(
            data.StructLayout({"first": 32, "vertices": 32, "arrival": 5, "report": ErrorReport}), reset_less=True
        )
        report = Signal(ErrorReport)
        # The locator is at work.
        busy, begins, answers = Signal(), Signal(), Signal()
        same, again = Signal(), Signal()
        m.d.sync += same.eq(Cat(last[name] == self.command[name] for name in _DEPENDS_ON).all())
        m.d.comb += [
            again.eq(kept & self.records_whole & same),
            self.o.payload.eq(Mux(waits, last, self.command)),
            self.o.valid.eq(Mux(waits, ~busy & self.records_there, self.ask & ~self.locating & ~again)),
            begins.eq(self.o.valid & self.o.ready),
            self.replay.eq(self.ask & ~self.locating & again),
            self.taken.eq(self.ask & (self.locating | again | self.o.ready)),
            self.located.ready.eq(busy),
            answers.eq(self.located.valid & busy),
            self.ahead.eq(self.behind & ~waits),
            self.odd.eq(self.odd_found ^ self.ahead),
            self.answered.eq(self.locating & (self.ahead | (~busy & (self.behind | ~waits)))),
            self.report.eq(Mux(self.ahead, used.report, report)),
            self.first.eq(Mux(self.behind, used.first, last.first_vertex)),
            self.vertices.eq(Mux(self.behind, used.vertices, last.vertices)),
            self.first_found.eq(Mux(waits, self.first, last.first_vertex)),
            self.vertices_found.eq(Mux(waits, self.vertices, last.vertices)),
            # What waits has another one behind which it waits.
            self.arrival_found.eq(Mux(waits, used.arrival, last.arrival)),
        ]
        with m.If(answers):
            m.d.sync += [busy.eq(0), report.eq(self.located.payload)]
        with m.If(begins):
            m.d.sync += [busy.eq(1), waits.eq(0), used.report.eq(report), report.eq(0)]
            m.d.sync += self.odd_found.eq(~self.odd_found)
        with m.If(self.forget | (answers & (self.located.payload.code != Error.NONE))):
            m.d.sync += kept.eq(0)
        with m.If(self.ends):
            m.d.sync += [self.locating.eq(self.behind), self.behind.eq(0)]
        with m.If(self.taken):
            m.d.sync += [self.locating.eq(1), last.eq(self.command), kept.eq(1)]
            with m.If(self.locating):
                m.d.sync += [self.behind.eq(1), waits.eq(1)]
                m.d.sync += [used[name].eq(last[of]) for name, of in _USED.items()]
            with m.Elif(again):
                m.d.sync += report.eq(0)
        m.d.sync += [
            Assert(~(self.ask & self.behind), "asked for while a location is behind another one"),
            Assert(~(self.taken & self.ends), "asked for while records end"),
            Cover(self.ends & self.ahead, "records of the location that is ahead are used next"),
            Cover(self.ends & self.behind & waits, "records are used before the next location begins"),
        ]
        return m
