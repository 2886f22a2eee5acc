"""Segmenter: computes where each tile of each row ends in an array (R9, R10)."""

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
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
        Of the memory port, in bits.

    Attributes
    ----------
    start : In(1)
        Start of a request; `request` is constant from here on.
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
        """Count rows and tiles; replace an offset that is out of order by its predecessor."""
        m = Module()
        m.submodules.out = out = Slice(Segment)
        connect(m, out.o, flipped(self.o))
        request = self.request

        # All set at the start.
        row, tile, position = Signal(32, reset_less=True), Signal(8, reset_less=True), Signal(32, reset_less=True)
        running = Signal()
        primed = Signal()  # the first offset, which must be 0, has been read
        offset, end = Signal(33), Signal(32)
        # End of the next uniform segment, computed in advance; meaningless once it has passed the end of the array.
        ahead, beyond = Signal(33, reset_less=True), Signal(reset_less=True)
        step = Signal()
        # Numbers of the last tile and row, in registers because the comparison is long.
        end_tile, end_row = Signal.like(tile), Signal.like(row)
        m.d.sync += [end_tile.eq(request.tiles - 1), end_row.eq(request.rows - 1)]
        last_tile = tile == end_tile
        final = last_tile & (row == end_row)
        wanted = running & out.i.ready
        m.d.comb += [
            offset.eq(Mux(request.uniform, ahead, self.offset.payload)),
            step.eq(wanted & (request.uniform | self.offset.valid)),
            self.offset.ready.eq(wanted & ~request.uniform),
            out.i.valid.eq(step & primed),
            out.i.payload.end.eq(end),
            out.i.payload.tile.eq(tile),
            out.i.payload.first.eq(tile == 0),
            out.i.payload.last.eq(last_tile),
            out.i.payload.final.eq(final),
            self.error.payload.info.eq(row),
        ]
        # Both are compared before the selection: comparisons are long paths.
        given = self.offset.payload
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
            m.d.sync += primed.eq(1)
            with m.If(primed):
                m.d.sync += [
                    position.eq(end),
                    tile.eq(Mux(last_tile, 0, tile + 1)),
                    row.eq(row + last_tile),
                    running.eq(~final),
                ]
                m.d.sync += [ahead.eq(ahead[:32] + request.stride), beyond.eq(request.uniform & past)]
        with m.If(self.start):
            m.d.sync += [running.eq(1), primed.eq(request.uniform), row.eq(0), tile.eq(0), position.eq(0)]
            m.d.sync += [ahead.eq(request.stride), beyond.eq(0)]
        return m
