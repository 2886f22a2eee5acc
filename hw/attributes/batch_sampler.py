"""Batch sampler: all positions of a batch in one stream, neighbourhoods of the roots before negatives (A1, A2)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.formats import AttributeCoreConfig
from hw.attributes.negative_sampler import NegativeSampler
from hw.attributes.sampling_formats import Sample, SampleSettings
from hw.attributes.structure_processor import StructureProcessor
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import ReadBeat, ReadRequest

__all__ = ["BatchSampler"]


class BatchSampler(wiring.Component):
    """Runs the structure processor, then the negative sampler if the batch has negatives.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    settings : In
        `SampleSettings`, constant while `busy`.
    start : In(1)
        Begin a batch; only while not `busy`.
    busy : Out(1)
        The batch is not complete: `o` has a sample or will have one.
    o : stream of `Sample`
        In the order of their positions; ``ready`` depends on the receiver alone.
    errors : streams of `ErrorReport`, always ready
        From the structure processor and from the negative sampler.
    requests, beats
        Clients' ends of the read arbiter: three of the structure processor, three of the negative sampler.
    """

    CLIENTS = StructureProcessor.CLIENTS + NegativeSampler.CLIENTS

    def __init__(self, config: AttributeCoreConfig) -> None:
        self.config = config
        attribute = config.attribute
        port = self._port = (attribute.address_width, attribute.data_width)
        super().__init__(
            {
                "settings": In(SampleSettings(attribute.address_width, attribute.id_bits)),
                "start": In(1),
                "busy": Out(1),
                "o": Out(stream.Signature(Sample)),
                "errors": Out(stream.Signature(ErrorReport, always_ready=True)).array(2),
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.CLIENTS),
                "beats": In(stream.Signature(ReadBeat(attribute.data_width), always_ready=True)).array(self.CLIENTS),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the two samplers to one port; run one after the other."""
        m = Module()
        config, id_bits = self.config, self.config.attribute.id_bits
        m.submodules.positive = positive = StructureProcessor(
            *self._port, config.most, config.frontier, id_bits=id_bits
        )
        m.submodules.negative = negative = NegativeSampler(*self._port, config.most, id_bits=id_bits)
        clients = [
            *zip(positive.requests, positive.beats, strict=True),
            *zip(negative.requests, negative.beats, strict=True),
        ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        connect(m, positive.error, flipped(self.errors[0]))
        connect(m, negative.error, flipped(self.errors[1]))

        negatives = Signal()  # `o` carries negatives
        m.d.comb += [
            positive.settings.eq(self.settings),
            negative.settings.eq(self.settings),
            self.o.valid.eq(Mux(negatives, negative.o.valid, positive.o.valid)),
            self.o.payload.eq(Mux(negatives, negative.o.payload, positive.o.payload)),
            positive.o.ready.eq(self.o.ready & ~negatives),
            negative.o.ready.eq(self.o.ready & negatives),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += positive.start.eq(self.start)
                with m.If(self.start):
                    m.next = "POSITIVE"
            with m.State("POSITIVE"):
                m.d.comb += self.busy.eq(1)
                with m.If(~positive.busy & ~positive.o.valid):
                    m.d.comb += negative.start.eq(self.settings.negatives != 0)
                    m.next = "NEGATIVE"
            with m.State("NEGATIVE"):
                m.d.comb += [negatives.eq(1), self.busy.eq(negative.busy | negative.o.valid)]
                with m.If(~self.busy):
                    m.next = "IDLE"
        return m
