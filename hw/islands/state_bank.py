"""State bank: a part of the node state that reads, decides and writes in one step."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.config import LocatorConfig
from hw.islands.formats import Answer, Kind, Operation, Outcome, Request, Row, Settings

__all__ = ["Held", "StateBank", "Word"]


class Word(data.StructLayout):
    """State of a vertex: its ``kind``, and the owner or the round as its ``value``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"kind": Kind, "value": config.value_bits})


class Held(data.StructLayout):
    """All that a bank keeps of a vertex: its ``word`` and its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"word": Word(config), "row": Row(config)})


class StateBank(wiring.Component):
    """A request a cycle, answered in the next; a request sees what the one before it wrote.

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
        Write all of the vertex at a ``place``; no request may be given in the cycle before.
    scan
        Place of the vertex to show.
    answer
        To the request of the cycle before.
    shown
        The vertex that ``scan`` named one cycle before.
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
        """Two memories: what changes, and what does not."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.states = states = memory.Memory(shape=Word(config), depth=config.depth, init=[])
        m.submodules.rows = rows = memory.Memory(shape=Row(config), depth=config.depth, init=[])
        write = states.write_port()
        # A request right after a write of the same vertex reads what was written.
        read, scanned = states.read_port(transparent_for=(write,)), states.read_port()
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

        valid, request = Signal(), Signal(Request(config), reset_less=True)
        m.d.sync += [valid.eq(self.valid), request.eq(self.request)]
        held = read.data
        answer = self.answer
        m.d.comb += [answer.row.eq(row_read.data), answer.owner.eq(held.value[: answer.owner.shape().size])]
        degree = row_read.data.degree
        with m.If(held.kind == Kind.DONE):
            m.d.comb += answer.outcome.eq(Outcome.DONE)
        with m.Elif(degree > settings.previous):
            m.d.comb += answer.outcome.eq(Outcome.OLD_HUB)
        with m.Elif(degree > settings.threshold):
            m.d.comb += answer.outcome.eq(Outcome.NEW_HUB)
        with m.Elif(held.kind == Kind.OWNED):
            m.d.comb += answer.outcome.eq(Mux(held.value == request.value, Outcome.MINE, Outcome.OTHER))
        with m.Elif((held.kind == Kind.MARKED) & (held.value == settings.round)):
            m.d.comb += answer.outcome.eq(Outcome.MARKED)
        with m.Else():
            m.d.comb += answer.outcome.eq(Outcome.FREE)

        m.d.comb += self.identified.eq(valid & (request.operation == Operation.SET) & (request.kind == Kind.DONE))
        claims = (request.operation == Operation.CLAIM) & (answer.outcome == Outcome.FREE)
        with m.If(self.put):
            m.d.comb += [write.en.eq(1), write.addr.eq(self.place), write.data.eq(self.contents.word)]
        with m.Else():
            m.d.comb += [
                write.en.eq(valid & (claims | (request.operation == Operation.SET))),
                write.addr.eq(request.node[config.bank_bits :]),
                write.data.kind.eq(Mux(claims, Kind.OWNED, request.kind)),
                write.data.value.eq(request.value),
            ]
        return m
