"""Record merger: arbitrates the records of several workers onto one stream and ends the stream."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import RECORD_HEADER
from hw.locator.formats import RecordBeat
from hw.stream.slice import Slice

__all__ = ["RecordMerger"]


class RecordMerger(wiring.Component):
    """Grants the next worker with a record when the previous record is through.

    Parameters
    ----------
    count
        Workers, at least 1.

    Attributes
    ----------
    i
        Records of each worker.
    o
        Records.
    finish
        Emit the end of the stream once; no worker may have a record.
    busy
        A beat is waiting.

    Raises
    ------
    ValueError
        If `count` is below 1.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count!r}")
        self.count = count
        super().__init__(
            {
                "i": In(stream.Signature(RecordBeat)).array(count),
                "o": Out(stream.Signature(RecordBeat)),
                "finish": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Hold the grant from a record's first beat to its last."""
        m = Module()
        m.submodules.out = out = Slice(RecordBeat)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        grant, ending = Signal(range(max(2, self.count))), Signal()
        valid = Signal(self.count)
        inside = Signal()  # of a record
        m.d.comb += [
            *(valid[n].eq(port.valid) for n, port in enumerate(self.i)),
            *(port.ready.eq(out.i.ready & (grant == n) & ~ending) for n, port in enumerate(self.i)),
            out.i.valid.eq(valid.bit_select(grant, 1) | ending),
            out.i.payload.eq(Array(port.payload.as_value() for port in self.i)[grant]),
            self.busy.eq(out.o.valid | ending),
        ]
        moves = out.i.valid & out.i.ready
        with m.If(moves):
            m.d.sync += [inside.eq(~out.i.payload.last), ending.eq(0)]
        with m.If((moves & out.i.payload.last) | (~inside & ~out.i.valid)):
            with m.Switch(grant):
                for n in range(self.count):
                    with m.Case(n):
                        for distance in reversed(range(1, self.count)):
                            after = (n + distance) % self.count
                            with m.If(valid[after]):
                                m.d.sync += grant.eq(after)
        with m.If(ending):
            m.d.comb += [
                out.i.payload.data.eq(RECORD_HEADER.pack({"end": 1})),
                out.i.payload.last.eq(1),
            ]
        with m.If(self.finish):
            m.d.sync += ending.eq(1)
        return m
