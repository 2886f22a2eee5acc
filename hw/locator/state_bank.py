"""State bank: a part of the node state that reads, decides and writes in one step."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.config import LocatorConfig
from hw.locator.formats import SETS, Answer, Kind, Operation, Outcome, Owner, Request, Row, Settings

__all__ = ["Held", "Listed", "StateBank", "Word"]


class Word(data.StructLayout):
    """State of a vertex: its ``kind``, and the owner or the round as its ``value``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"kind": Kind, "value": config.value_bits})


class Listed(data.StructLayout):
    """What does not change of a vertex: its ``row``, and the place of the ``next`` one of its degree in the bank."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"row": Row(config), "next": config.place_bits})


class Held(data.StructLayout):
    """Entry of a vertex: its state in a ``word``, and the ``rest``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"word": Word(config), "rest": Listed(config)})


class StateBank(wiring.Component):
    """Serves one request a cycle and answers in the next; a request sees the previous one's write.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    valid, request, owner
        A request, and the search that it claims for; always taken.
    put, place, contents
        Write the whole entry at ``place``; the previous cycle must have no request.
    answer
        Answer to the request of the previous cycle.
    shown
        Entry of the vertex that ``request`` named in the previous cycle, valid or not, unless that was written then.
    identified
        A vertex became part of a community.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "valid": In(1),
                "request": In(Request(config)),
                "owner": In(Owner(config)),
                "put": In(1),
                "place": In(range(config.depth)),
                "contents": In(Held(config)),
                "answer": Out(Answer(config)),
                "shown": Out(Held(config)),
                "identified": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect two memories: changing states, constant rows.

        A state that is written while it is read is taken from a register; no request comes while rows are written.
        """
        m = Module()
        config, settings = self.config, self.settings
        attributes = dict(NO_BYPASS)
        m.submodules.states = states = Memory(shape=Word(config), depth=config.depth, init=[], attrs=attributes)
        m.submodules.rows = rows = Memory(shape=Listed(config), depth=config.depth, init=[], attrs=attributes)
        write, read = states.write_port(), registered_read(m, states, "state")
        row_write, row_read = rows.write_port(), registered_read(m, rows, "row")
        row = row_read.data.row
        address = self._place(self.request)
        m.d.comb += [
            read.addr.eq(address),
            row_read.addr.eq(address),
            self.shown.word.eq(read.data),
            self.shown.rest.eq(row_read.data),
            row_write.addr.eq(self.place),
            row_write.data.eq(self.contents.rest),
            row_write.en.eq(self.put),
        ]
        m.d.sync += Assert(~(self.put & self.valid), "a request while rows are written")

        request, owner = Signal(Request(config), reset_less=True), Signal(Owner(config), reset_less=True)
        claims, sets, operation = Signal(), Signal(), self.request.operation.as_value()
        m.d.sync += [
            request.eq(self.request),
            owner.eq(self.owner),
            claims.eq(self.valid & (operation == Operation.CLAIM)),
            sets.eq(self.valid & (operation & SETS != 0)),
        ]
        # A request right after a write of the same vertex is answered with what was written, which is judged beside
        # what the memory says: that comes late.
        wrote, written, last = Signal(), Signal.like(write.addr), Signal(Word(config))
        m.d.sync += [wrote.eq(write.en), written.eq(write.addr), last.eq(write.data)]
        newer = wrote & (self._place(request) == written)
        outcomes, pending = [], []
        for name, word in (("stored", read.data), ("written", last)):
            outcome, mine, now = Signal(Outcome, name=name), Signal(name=f"{name}_mine"), Signal(name=f"{name}_now")
            m.d.comb += [mine.eq(word.value == owner.as_value()), now.eq(word.value == settings.round)]
            with m.Switch(word.kind):
                with m.Case(Kind.DONE):
                    m.d.comb += outcome.eq(Outcome.DONE)
                with m.Case(Kind.OWNED):
                    m.d.comb += outcome.eq(Mux(mine, Outcome.MINE, Outcome.OTHER))
                with m.Case(Kind.MARKED):
                    m.d.comb += outcome.eq(Mux(now, Outcome.MARKED, Outcome.FREE))
                with m.Default():
                    m.d.comb += outcome.eq(Outcome.FREE)
            outcomes.append(outcome)
            pending.append((word.kind == Kind.FREE) | ((word.kind == Kind.MARKED) & ~now))
        answer, found, old_hub, new_hub = self.answer, Signal(Outcome), Signal(), Signal()
        m.d.comb += [
            found.eq(Mux(newer, outcomes[1], outcomes[0])),
            old_hub.eq(_exceeds(row.degree, settings.previous)),
            new_hub.eq(_exceeds(row.degree, settings.threshold)),
            answer.outcome.eq(found),
        ]
        kept = Mux(newer, last.as_value(), read.data.as_value())
        word = data.View(Word(config), kept)
        with m.If(word.kind == Kind.OWNED):
            m.d.comb += answer.of.owner.eq(word.value)
        with m.Else():
            m.d.comb += answer.of.row.eq(row)
        with m.If(found != Outcome.DONE):
            with m.If(old_hub):
                m.d.comb += answer.outcome.eq(Outcome.OLD_HUB)
            with m.Elif(new_hub):
                m.d.comb += answer.outcome.eq(Outcome.NEW_HUB)

        by_written, by_stored = Signal(), Signal()
        m.d.comb += [
            self.identified.eq(sets & (request.operation == Operation.FINISH)),
            # Memory's word is late, the written one is early. A degree above the previous threshold is above this one
            # too.
            by_written.eq(claims & newer & pending[1]),
            by_stored.eq(claims & ~newer),
            write.en.eq(self.put | sets | ((by_written | (by_stored & pending[0])) & ~new_hub)),
            write.addr.eq(Mux(self.put, self.place, self._place(request))),
            write.data.kind.eq(request.operation.as_value()),
            write.data.value.eq(Mux(sets, settings.round, owner.as_value())),
        ]
        with m.If(self.put):
            m.d.comb += write.data.eq(self.contents.word)
        return m

    def _place(self, request: Any) -> Value:
        """Return the place of a request's vertex in the bank."""
        place: Value = request.node[self.config.bank_bits :][: len(self.place)]
        return place


def _exceeds(degree: Value, limit: Value) -> Value:
    """Whether a late degree is above a limit, as a carry that takes the degree unchanged."""
    return (degree + ~limit)[len(limit)]
