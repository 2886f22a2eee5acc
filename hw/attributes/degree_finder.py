"""Degree finder: the degree of each missing node, as its replacement key (A8)."""

from amaranth import Elaboratable, Module, Mux, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.attributes.row_finder import RowFinder
from hw.memory.formats import ReadBeat, ReadRequest

__all__ = ["DegreeFinder"]


class DegreeFinder(wiring.Component):
    """Reads the offsets of missing nodes while their rows are under way; degrees come in the order of the nodes.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`
    i : stream of IDs
    o : stream of degrees
        The largest key for any larger degree, 0 for one that could not be read.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        super().__init__(
            {
                "settings": In(AttributeSettings(config)),
                "i": In(stream.Signature(unsigned(config.id_bits))),
                "o": Out(stream.Signature(unsigned(config.key_bits))),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Bound the lengths of the rows."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.finder = finder = RowFinder(config.address_width, config.data_width)
        connect(m, finder.request, flipped(self.request))
        connect(m, flipped(self.beat), finder.beat)
        most, length = (1 << config.key_bits) - 1, finder.o.payload.length
        m.d.comb += [
            *(finder.settings[name].eq(settings[name]) for name in ("offsets", "edge_count", "tiles")),
            finder.i.valid.eq(self.i.valid),
            finder.i.payload.eq(self.i.payload),
            self.i.ready.eq(finder.i.ready),
            self.o.valid.eq(finder.o.valid),
            self.o.payload.eq(Mux(length > most, most, length)),
            finder.o.ready.eq(self.o.ready),
        ]
        return m
