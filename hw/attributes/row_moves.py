"""Row moves: the work of the row store, in the order of its priority (A7)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.flows import Effect, Found, Missing
from hw.attributes.formats import AttributeConfig, MoveKind

__all__ = ["RowMoves"]


class RowMoves(wiring.Component):
    """Reads a row that has landed, then the row of the last request that moved one, then serves the next request.

    A row that moves to its target slot is read in a move of its own; no request is decided until then.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    read_landed : In(1)
        The row `landed` has arrived and is to be read.
    landed : In
        `Missing`.
    request : In
        The request that is decided.
    effect : In
        `Effect` of it.
    found : In
        `Found` for it.
    pending : Out(1)
        The row of an earlier request is still to be read.
    o : stream of ``config.move``
        A move for a request or a landed row is offered only when it is taken: ``ready`` must not depend on ``valid``.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "read_landed": In(1),
                "landed": In(Missing(config)),
                "request": In(config.request),
                "effect": In(Effect),
                "found": In(Found(config)),
                "pending": Out(1),
                "o": Out(stream.Signature(config.move)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Choose the move; keep slot and tag of a row that is read later."""
        m = Module()
        slots, request, found, met = self.config.slots, self.request, self.found, self.effect.met
        slot, tag = Signal.like(request.slot, name="slot"), Signal.like(request.tag, name="tag")
        move = self.o.payload
        with m.If(self.effect.commits & request.read & (met.cached | met.moved)):
            m.d.sync += [self.pending.eq(1), slot.eq(request.slot), tag.eq(request.tag)]
        with m.If(self.read_landed):
            m.d.comb += [
                self.o.valid.eq(1),
                move.kind.eq(MoveKind.READ),
                move.first.eq(self.landed.slot),
                move.tag.eq(self.landed.tag),
            ]
        with m.Elif(self.pending):
            m.d.comb += [self.o.valid.eq(1), move.kind.eq(MoveKind.READ), move.first.eq(slot), move.tag.eq(tag)]
            with m.If(self.o.ready):
                m.d.sync += self.pending.eq(0)
        with m.Else():
            m.d.comb += [
                self.o.valid.eq(self.effect.commits & self.effect.moves),
                move.first.eq(request.slot),
                move.tag.eq(request.tag),
            ]
            with m.If(met.in_place):
                m.d.comb += move.kind.eq(MoveKind.READ)
            with m.Elif(met.missed):
                m.d.comb += [move.kind.eq(MoveKind.COPY), move.second.eq(slots + found.place)]
            with m.Else():
                second = Mux(met.cached, slots + found.way, found.address)
                m.d.comb += [move.kind.eq(MoveKind.SWAP), move.second.eq(second)]
        return m
