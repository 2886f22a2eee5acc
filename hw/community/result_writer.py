"""Result writer: collects the result rows of PEs and hub units, and writes each beat where its vertex has it."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VALUE_BITS
from hw.community.formats import CommunityConfig
from hw.memory.formats import WriteRequest, beat_address_width, row_beats_width
from hw.stream.arbiter import Arbiter
from hw.stream.slice import Slice

__all__ = ["ResultWriter"]


class ResultWriter(wiring.Component):
    """Takes beats of all sources in turn; the address is a product and a sum, a cycle each.

    Parameters
    ----------
    config : CommunityConfig
    address_width
        Of the memory port, in bits.
    sources
        Number of sources, at least 2.

    Attributes
    ----------
    f_out : In
        Elements of a row; those that pad it are not written. At most those of ``config.row_beats`` beats.
    first_result : In(32)
        VID of the first row of results.
    result_beats : In
        Beats between rows.
    results : In
        Beat address of the first row.
    i : streams of ``config.result``
    o : stream of `WriteRequest`
    busy : Out(1)
        A beat has been taken and not been handed on.
    """

    def __init__(self, config: CommunityConfig, address_width: int, sources: int) -> None:
        self.config, self.sources = config, sources
        self.port = (address_width, config.data_width)
        super().__init__(
            {
                "f_out": In(range(config.row_beats * config.pe.elements + 1)),
                "first_result": In(32),
                "result_beats": In(row_beats_width(config.data_width)),
                "results": In(beat_address_width(*self.port)),
                "i": In(stream.Signature(config.result)).array(sources),
                "o": Out(stream.Signature(WriteRequest(*self.port))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Multiply, add, and let no path from the memory port reach the sources."""
        m = Module()
        elements = self.config.pe.elements
        m.submodules.arbiter = arbiter = Arbiter(self.config.result, self.sources, wide=True)
        m.submodules.writes = writes = Slice(WriteRequest(*self.port))
        # A beat whose row has been found, between the arbiter and the slice in front of the memory port.
        held, product = Signal(), Signal(WriteRequest(*self.port), reset_less=True)
        for outer, inner in zip(self.i, arbiter.i, strict=True):
            connect(m, flipped(outer), inner)
        connect(m, writes.o, flipped(self.o))
        beat = arbiter.o.payload.payload
        moves = ~held | writes.i.ready
        with m.If(moves):
            m.d.sync += [
                held.eq(arbiter.o.valid),
                product.address.eq((beat.vid - self.first_result)[:32] * self.result_beats + beat.beat),
                product.data.eq(beat.data),
                product.strobe.eq(
                    Cat((beat.beat * elements + n < self.f_out).replicate(VALUE_BITS // 8) for n in range(elements))
                ),
            ]
        m.d.comb += [
            arbiter.o.ready.eq(moves),
            writes.i.valid.eq(held),
            writes.i.payload.eq(product),
            writes.i.payload.address.eq(product.address + self.results),
            self.busy.eq(arbiter.o.valid | held | writes.o.valid),
        ]
        return m
