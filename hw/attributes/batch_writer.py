"""Batch writer: the graph of a mini-batch into memory, four arrays behind a header (A1, A2)."""

from amaranth import Cat, Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMANDS, LINE_BYTES, Opcode
from contracts.sampling import HOPS_MAX
from hw.attributes.batch_positions import ARRAYS, BatchPositions
from hw.attributes.formats import AttributeConfig, AttributeCoreConfig
from hw.attributes.header_writer import HeaderWriter
from hw.attributes.node_words import EdgeKeys, NodeWords
from hw.attributes.request_counts import RequestTotals
from hw.attributes.sampling_formats import Sample
from hw.attributes.target_address import Placed
from hw.contracts import struct
from hw.memory.formats import WriteRequest, line_address_width
from hw.memory.word_writer import WordWriter

__all__ = ["BatchSettings", "BatchWriter"]


class BatchSettings(data.StructLayout):
    """``tree``: line address of the header. ``span``: lines of each array but the last. ``keys``: an `EdgeKeys`."""

    def __init__(self, config: AttributeConfig) -> None:
        span = struct(COMMANDS[Opcode.SAMPLE])["span"].shape
        super().__init__(
            {
                "tree": unsigned(line_address_width(config.address_width)),
                "span": span,
                "keys": EdgeKeys(config.id_bits),
            }
        )


class BatchWriter(wiring.Component):
    """Takes the samples of a batch, has their attributes requested, and writes offsets, edges, factors and VIDs.

    The header is written last, when every attribute of the batch is on its way to memory.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    settings : In
        `BatchSettings`, constant from `start` to `done`.
    start : In(1)
        Begin a batch; the last one is done.
    sample : Out(1)
        The sampler begins, and so do the requests of this batch.
    sampling : In(1)
        The sampler has or will have samples; from the cycle after `sample`.
    samples : stream of `Sample`
    placed : stream of `Placed`
        Every position with its slot, as a request for its attribute.
    positions : Out
        Number of positions so far.
    totals : In
        `RequestTotals` of the batch.
    settled : In(1)
        As many requests as `positions` have ended, and their rows are written.
    done : Out(1)
        The last beat of the header goes out in this cycle.
    writes : streams of `WriteRequest`
        The four arrays, then the header.
    """

    #: Streams in `writes`.
    WRITES = len(ARRAYS) + 1

    def __init__(self, config: AttributeCoreConfig) -> None:
        self.config = config
        attribute = config.attribute
        self._port = port = (attribute.address_width, attribute.data_width)
        super().__init__(
            {
                "settings": In(BatchSettings(attribute)),
                "start": In(1),
                "sample": Out(1),
                "sampling": In(1),
                "samples": In(stream.Signature(Sample)),
                "placed": Out(stream.Signature(Placed(attribute))),
                "positions": Out(range((1 << attribute.tag_bits) + 1)),
                "totals": In(RequestTotals(attribute)),
                "settled": In(1),
                "done": Out(1),
                "writes": Out(stream.Signature(WriteRequest(*port))).array(self.WRITES),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect positions and writers; write arrays, then the header."""
        m = Module()
        settings, data_width = self.settings, self._port[1]
        line_beats = 8 * LINE_BYTES // data_width
        m.submodules.positions = positions = BatchPositions(self.config)
        connect(m, flipped(self.samples), positions.i)
        connect(m, positions.o, flipped(self.placed))
        m.submodules.node_words = words = NodeWords(self.config.attribute.id_bits)
        connect(m, positions.nodes, words.i)
        m.d.comb += words.keys.eq(settings.keys)
        begins, ends = Signal(), Signal()
        done = []
        for n, name in enumerate(ARRAYS):
            m.submodules[f"{name}_writer"] = writer = WordWriter(*self._port)
            connect(m, words.o if name == "nodes" else getattr(positions, name), writer.i)
            connect(m, writer.o, flipped(self.writes[n]))
            m.d.comb += [
                writer.start.eq(begins),
                writer.ended.eq(ends & ~words.busy),
                writer.address.eq((settings.tree + 1 + n * settings.span) << exact_log2(line_beats)),
            ]
            done.append(writer.done)

        m.submodules.header = header = HeaderWriter(*self._port)
        connect(m, header.o, flipped(self.writes[len(ARRAYS)]))
        m.d.comb += [
            self.positions.eq(positions.positions),
            positions.start.eq(self.sample),
            header.line.eq(settings.tree),
            header.header.positions.eq(positions.positions),
            *(header.header[f"hop{n}"].eq(positions.kinds[n]) for n in range(HOPS_MAX + 1)),
            header.header.negatives.eq(positions.kinds[HOPS_MAX + 1]),
            *(header.header[name].eq(self.totals[name]) for name, _ in self.totals.shape()),
            self.done.eq(header.done),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += ends.eq(0)
                with m.If(self.start):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += begins.eq(1)
                m.next = "BEGUN"
            with m.State("BEGUN"):
                m.d.comb += self.sample.eq(1)
                m.next = "SAMPLE"
            with m.State("SAMPLE"):
                with m.If(~self.sampling):
                    m.d.sync += ends.eq(1)
                    m.next = "ROWS"
            with m.State("ROWS"):
                with m.If(self.settled & Cat(done).all()):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += header.write.eq(1)
                with m.If(header.done):
                    m.next = "IDLE"
        return m
