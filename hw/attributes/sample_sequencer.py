"""Sample sequencer: all positions of a batch in one stream, neighbourhoods of the roots before negatives (A1, A2)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.sampling_formats import Sample

__all__ = ["SampleSequencer"]


class SampleSequencer(wiring.Component):
    """Runs the structure processor, then the negative sampler if the batch has negatives.

    Attributes
    ----------
    start : In(1)
        Begin a batch; only while not `busy`.
    negatives : In(1)
        The batch has negatives; constant while `busy`.
    busy : Out(1)
        The batch is not complete: `o` has a sample or will have one.
    start_positive, start_negative : Out(1)
        The sampler begins.
    busy_positive, busy_negative : In(1)
        The sampler has not ended, from the cycle after its start; a last sample may still wait.
    positive, negative : streams of `Sample`
        From the structure processor, and from the negative sampler.
    o : stream of `Sample`
        In the order of their positions.
    """

    def __init__(self) -> None:
        samples = stream.Signature(Sample)
        super().__init__(
            {
                "start": In(1),
                "negatives": In(1),
                "busy": Out(1),
                "start_positive": Out(1),
                "start_negative": Out(1),
                "busy_positive": In(1),
                "busy_negative": In(1),
                "positive": In(samples),
                "negative": In(samples),
                "o": Out(samples),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Pass on the stream of one sampler, then that of the other."""
        m = Module()
        positive, negative = self.positive, self.negative
        second = Signal()  # the negative sampler's turn
        m.d.comb += [
            self.o.valid.eq(Mux(second, negative.valid, positive.valid)),
            self.o.payload.eq(Mux(second, negative.payload, positive.payload)),
            positive.ready.eq(self.o.ready & ~second),
            negative.ready.eq(self.o.ready & second),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.start_positive.eq(self.start)
                with m.If(self.start):
                    m.next = "POSITIVE"
            with m.State("POSITIVE"):
                m.d.comb += self.busy.eq(1)
                with m.If(~self.busy_positive & ~positive.valid):
                    m.d.comb += self.start_negative.eq(self.negatives)
                    m.next = "NEGATIVE"
            with m.State("NEGATIVE"):
                m.d.comb += [second.eq(1), self.busy.eq(self.busy_negative | negative.valid)]
                with m.If(~self.busy):
                    m.next = "IDLE"
        return m
