"""State bank: a part of the node state that reads, decides and writes in one step."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Kind, Operation, Outcome, Request, Row, Settings

__all__ = ["Held", "StateBank", "Word"]


class Word(data.StructLayout):
    """State of a vertex: its ``kind``, and the owner or the round as its ``value``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"kind": Kind, "value": config.value_bits})


class Held(data.StructLayout):
    """Entry of a vertex: its ``word`` and its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"word": Word(config), "row": Row(config)})


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
    valid, request
        A request; always taken.
    put, place, contents
        Write the whole entry at ``place``; the previous cycle must have no request.
    scan
        Address of the vertex to show.
    answer
        Answer to the request of the previous cycle.
    shown
        The vertex that ``scan`` addressed in the previous cycle.
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
                "put": In(1),
                "place": In(range(config.depth)),
                "contents": In(Held(config)),
                "scan": In(range(config.depth)),
                "answer": Out(Answer(config)),
                "shown": Out(Held(config)),
                "identified": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect two memories: changing states, constant rows."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.states = states = memory.Memory(shape=Word(config), depth=config.depth, init=[])
        m.submodules.rows = rows = memory.Memory(shape=Row(config), depth=config.depth, init=[])
        write, read, scanned = states.write_port(), states.read_port(), states.read_port()
        row_write, row_read, row_scanned = rows.write_port(), rows.read_port(), rows.read_port()
        address = self.request.node[config.bank_bits :][: len(self.place)]
        m.d.comb += [
            read.addr.eq(address),
            row_read.addr.eq(address),
            scanned.addr.eq(self.scan),
            row_scanned.addr.eq(self.scan),
            self.shown.word.eq(scanned.data),
            self.shown.row.eq(row_scanned.data),
            row_write.addr.eq(self.place),
            row_write.data.eq(self.contents.row),
            row_write.en.eq(self.put),
        ]

        request, claims, sets = Signal(Request(config), reset_less=True), Signal(), Signal()
        m.d.sync += [
            request.eq(self.request),
            claims.eq(self.valid & (self.request.operation == Operation.CLAIM)),
            sets.eq(self.valid & (self.request.operation == Operation.SET)),
        ]
        # A request right after a write of the same vertex is answered with what was written, which is judged beside
        # what the memory says: that comes late.
        wrote, again, last = Signal(), Signal(), Signal(Word(config))
        m.d.sync += [wrote.eq(write.en), again.eq(address == write.addr), last.eq(write.data)]
        newer = wrote & again
        outcomes, pending = [], []
        for name, word in (("stored", read.data), ("written", last)):
            outcome, mine, now = Signal(Outcome, name=name), Signal(name=f"{name}_mine"), Signal(name=f"{name}_now")
            m.d.comb += [mine.eq(word.value == request.value), now.eq(word.value == settings.round)]
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
            old_hub.eq(_exceeds(row_read.data.degree, settings.previous)),
            new_hub.eq(_exceeds(row_read.data.degree, settings.threshold)),
            answer.row.eq(row_read.data),
            answer.owner.eq(Mux(newer, last.value, read.data.value)[: answer.owner.shape().size]),
            answer.outcome.eq(found),
        ]
        with m.If(found != Outcome.DONE):
            with m.If(old_hub):
                m.d.comb += answer.outcome.eq(Outcome.OLD_HUB)
            with m.Elif(new_hub):
                m.d.comb += answer.outcome.eq(Outcome.NEW_HUB)

        m.d.comb += [
            self.identified.eq(sets & (request.kind == Kind.DONE)),
            # A degree above the previous threshold is above this one too.
            write.en.eq(self.put | sets | (claims & Mux(newer, pending[1], pending[0]) & ~new_hub)),
            write.addr.eq(Mux(self.put, self.place, request.node[config.bank_bits :][: len(self.place)])),
            # Unless it is set, a state is claimed or not written.
            write.data.kind.eq(Mux(sets, request.kind, Kind.OWNED)),
            write.data.value.eq(request.value),
        ]
        with m.If(self.put):
            m.d.comb += write.data.eq(self.contents.word)
        return m


def _exceeds(degree: Value, limit: Value) -> Value:
    """Whether a late degree is above a limit, as a carry that takes the degree unchanged."""
    return (degree + ~limit)[len(limit)]
