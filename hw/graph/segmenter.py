"""Segmenter: finds the end of every tile of every row in an array (R9, R10)."""

from amaranth import Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from hw.graph.formats import CsrRequest, ErrorReport, Segment
from hw.stream.slice import Slice

__all__ = ["Segmenter"]


class Segmenter(wiring.Component):
    """Turns offsets, or a constant stride, into the ends of segments.

    Parameters
    ----------
    address_width
        Width of the memory port's byte addresses, in bits.

    Attributes
    ----------
    start : In(1)
        The request begins; `request` is constant from this cycle on.
    request : In(CsrRequest)
    offset : stream of unsigned(32)
        The offsets array.
    o : stream of segments, in order and never past the array's end
    error : stream of `ErrorReport`, always ready
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "start": In(1),
                "request": In(CsrRequest(address_width)),
                "offset": In(stream.Signature(unsigned(32))),
                "o": Out(stream.Signature(Segment)),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count rows and tiles; an offset out of order is replaced by the previous one."""
        m = Module()
        m.submodules.out = out = Slice(Segment)
        connect(m, out.o, flipped(self.o))
        request = self.request

        # All are set at the start.
        row, tile, position = Signal(32, reset_less=True), Signal(8, reset_less=True), Signal(32, reset_less=True)
        running = Signal()
        primed = Signal()  # the first offset, which must be 0, has been read
        step = Signal()
        # Numbers of the last tile and row, in registers because the comparison is long.
        end_tile, end_row = Signal.like(tile), Signal.like(row)
        m.d.sync += [end_tile.eq(request.tiles - 1), end_row.eq(request.rows - 1)]
        last_tile = tile == end_tile
        final = last_tile & (row == end_row)
        wanted = running & out.i.ready
        m.d.comb += [
            step.eq(wanted & (request.uniform | self.offset.valid)),
            self.offset.ready.eq(wanted & ~request.uniform),
            out.i.valid.eq(step & primed),
            out.i.payload.tile.eq(tile),
            out.i.payload.first.eq(tile == 0),
            out.i.payload.last.eq(last_tile),
            out.i.payload.final.eq(final),
            self.error.payload.info.eq(row),
        ]
        end = self._end(m, position, step, primed, final)
        m.d.comb += out.i.payload.end.eq(end)

        with m.If(step):
            m.d.sync += primed.eq(1)
            with m.If(primed):
                m.d.sync += [
                    position.eq(end),
                    tile.eq(Mux(last_tile, 0, tile + 1)),
                    row.eq(row + last_tile),
                    running.eq(~final),
                ]
        with m.If(self.start):
            m.d.sync += [running.eq(1), primed.eq(request.uniform), row.eq(0), tile.eq(0), position.eq(0)]
        return m

    def _end(self, m: Module, position: Signal, step: Signal, primed: Signal, final: Value) -> Signal:
        """Return the end of the segment in turn, which began at `position`; report offsets that are out of range."""
        request, given = self.request, self.offset.payload
        # End of the next uniform segment, a cycle ahead. It is invalid after one that was past the array's end.
        ahead, beyond = Signal(33, reset_less=True), Signal(reset_less=True)
        offset, end = Signal(33), Signal(32)
        m.d.comb += offset.eq(Mux(request.uniform, ahead, given))
        # Both are compared before one of them is chosen, because comparisons are long.
        past = beyond | Mux(request.uniform, ahead > request.words, given > request.words)
        disordered = ~beyond & Mux(request.uniform, ahead < position, given < position)
        with m.If(~primed):
            m.d.comb += [self.error.valid.eq(step & (offset != 0)), self.error.payload.code.eq(Error.OFFSET_ORDER)]
        with m.Elif(disordered):
            m.d.comb += [end.eq(position), self.error.valid.eq(step), self.error.payload.code.eq(Error.OFFSET_ORDER)]
        with m.Else():
            m.d.comb += [
                end.eq(Mux(past, request.words, offset)),
                self.error.valid.eq(step & (past | (final & (offset != request.words)))),
                self.error.payload.code.eq(Error.EDGE_RANGE),
            ]
        with m.If(step):
            with m.If(primed):
                m.d.sync += [ahead.eq(ahead[:32] + request.stride), beyond.eq(request.uniform & past)]
        with m.If(self.start):
            m.d.sync += [ahead.eq(request.stride), beyond.eq(0)]
        return end
