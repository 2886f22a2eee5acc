"""Gather unit: fetches the combined rows of every vertex and of its neighbours."""

from typing import Any

from amaranth import Elaboratable, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import SCALE, VALUE_BITS, Error
from contracts.attention import MARGIN_MAX
from hw.chiplet.attention import AttentionUnit
from hw.contracts import struct
from hw.graph.formats import ErrorReport, is_high_half
from hw.memory.fetcher import Fetcher
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest, beat_address_width, row_beats_width
from hw.pe.formats import Coefficient, PEConfig
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["GatherBeat", "GatherSettings", "GatherUnit", "Source", "gather_settings", "gather_unit"]

#: A word of the edges: VID of a source and, if edges are weighted, its weight. ``last`` ends a destination; an
#: ``empty`` one holds no source.
Source = data.StructLayout({"data": 8 * WORD_BYTES, "weight": signed(VALUE_BITS), "last": 1, "empty": 1})


def _of_destination(tag: Any) -> Value:
    """Return whether a row is the destination's own one, for itself or in place of a source without a row."""
    return (tag.coefficient == Coefficient.SELF) | (tag.coefficient == Coefficient.ZERO)


class GatherSettings(data.StructLayout):
    """Settings of the gather unit, constant during a command.

    ``own``, ``first_own``: beat address of the rows of which each destination has an own one, and number of the first
    destination's there. ``first_source``, ``sources``: VIDs that have a combined row.
    ``partials``: number of these, the last ones, that are halves of partial sums, low and high in turn.
    ``combined``: beat address of the first row. ``stride``: distance of rows in beats, `max_stride` at most.
    ``last_beat``: beats of a row that hold data, less one. ``self_weight``, ``neighbour_weight``: factors of a
    destination's own row and of its sources' rows; ``margin`` and these with attention. ``weighted``: every source has
    a factor of its own.
    """

    def __init__(self, address_width: int, data_width: int, max_beats: int, max_stride: int) -> None:
        super().__init__(
            {
                "own": unsigned(beat_address_width(address_width, data_width)),
                "first_own": unsigned(32),
                "first_source": unsigned(32),
                "sources": unsigned(32),
                "partials": unsigned(32),
                "combined": unsigned(beat_address_width(address_width, data_width)),
                "stride": range(max_stride + 1),
                "last_beat": range(max(2, max_beats)),
                "self_weight": signed(VALUE_BITS),
                "neighbour_weight": signed(VALUE_BITS),
                "weighted": unsigned(1),
                "margin": range(MARGIN_MAX + 1),
            }
        )


def gather_settings(pe: PEConfig) -> GatherSettings:
    """Return the layout of the settings of `gather_unit`."""
    stride = (1 << row_beats_width(pe.data_width)) - 1
    return GatherSettings(pe.address_width, pe.data_width, max(pe.max_beats, pe.max_feature_beats), stride)


class GatherBeat(data.StructLayout):
    """A beat of a combined row.

    ``coefficient``: what the row is to its destination. ``scalar``: its factor, without the 2^16 of a high half.
    ``first``, ``last``: first and last beat of a destination. ``scale``: with attention, at ``last``, that of sums.
    """

    def __init__(self, data_width: int) -> None:
        super().__init__(
            {
                "data": data_width,
                "coefficient": Coefficient,
                "scalar": signed(VALUE_BITS),
                "first": 1,
                "last": 1,
                "scale": struct(SCALE),
            }
        )


class GatherUnit(wiring.Component):
    """For each destination: its own row, then those of its sources, in the order of the edges.

    Sources without a row are reported and replaced by the destination's own row with coefficient 0, so that no
    destination loses its end.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    max_beats
        Beats of the longest row.
    max_stride
        Longest distance of rows, in beats; default: rows follow each other.
    depth
        Beats requested or waiting, see `hw.memory.fetcher.Fetcher`.
    attention
        Whether rows can count by their scores; see `hw.chiplet.attention.AttentionUnit`.

    Attributes
    ----------
    settings : In
        `GatherSettings`, constant from one `start` to the next.
    start : In(1)
        The next word belongs to the first destination.
    i : stream of `Source`
        Sources of each destination.
    o : stream of `GatherBeat`
    error : stream of `ErrorReport`, always ready
        ``VID_RANGE`` with the VID.
    request, beat
        A client's end of the read arbiter.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(
        self,
        address_width: int = 32,
        data_width: int = 256,
        max_beats: int = 4,
        depth: int = 128,
        max_stride: int | None = None,
        *,
        attention: bool = False,
    ) -> None:
        if max_beats < 1:
            raise ValueError(f"max_beats must be at least 1, not {max_beats!r}")
        self._fetcher = Fetcher(address_width, data_width, depth)
        self.address_width, self.data_width = address_width, data_width
        self.max_beats, self.depth, self.attention = max_beats, depth, attention
        super().__init__(
            {
                "settings": In(GatherSettings(address_width, data_width, max_beats, max_stride or max_beats)),
                "start": In(1),
                "i": In(stream.Signature(Source)),
                "o": Out(stream.Signature(GatherBeat(data_width))),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the four steps: row numbers, row addresses, requests of beats, beats."""
        m = Module()
        tag = data.StructLayout({"coefficient": Coefficient, "scalar": signed(VALUE_BITS), "first": 1, "last": 1})
        # Addresses wrap at the port's width, so a row's number needs no more bits.
        row = data.StructLayout({"index": len(self.settings.combined), "tag": tag})
        m.submodules.rows = rows = Slice(row)
        # Registers on both sides of the multiplication of a row's number, and of the addition to the first address:
        # each of them takes most of a cycle.
        m.submodules.distances = distances = Slice(row)
        m.submodules.places = places = Slice(row)
        m.submodules.requests = requests = Queue(ReadRequest(self.address_width, self.data_width), 2)
        m.submodules.fetcher = fetcher = self._fetcher
        # Tags of all requested beats. It has room for more than fetcher and queue hold, so it is never full.
        m.submodules.tags = tags = Queue(tag, 2 * self.depth)
        m.submodules.out = out = self._out(m)
        connect(m, requests.o, fetcher.i)
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)
        connect(m, out.o, flipped(self.o))

        self._rows(m, rows.i)
        for source, target in ((rows.o, distances.i), (distances.o, places.i)):
            m.d.comb += [
                target.valid.eq(source.valid),
                target.payload.tag.eq(source.payload.tag),
                source.ready.eq(target.ready),
            ]
        m.d.comb += [
            distances.i.payload.index.eq(rows.o.payload.index * self.settings.stride),
            places.i.payload.index.eq(
                Mux(_of_destination(distances.o.payload.tag), self.settings.own, self.settings.combined)
                + distances.o.payload.index
            ),
        ]
        self._request(m, places.o, requests.i, tags.i)

        # Data arrive in the order of their requests and meet their tags, which were queued before.
        m.d.comb += [
            out.i.valid.eq(fetcher.o.valid),
            fetcher.o.ready.eq(out.i.ready),
            tags.o.ready.eq(out.i.ready & fetcher.o.valid),
            out.i.payload.data.eq(fetcher.o.payload.data),
            out.i.payload.coefficient.eq(tags.o.payload.coefficient),
            out.i.payload.scalar.eq(tags.o.payload.scalar),
            out.i.payload.first.eq(tags.o.payload.first),
            out.i.payload.last.eq(tags.o.payload.last),
        ]
        return m

    def _out(self, m: Module) -> Slice | AttentionUnit:
        """Return the last step, a register between others."""
        if not self.attention:
            return Slice(GatherBeat(self.data_width))
        settings, out = self.settings, AttentionUnit(GatherBeat(self.data_width), self.max_beats)
        m.d.comb += [
            out.settings.margin.eq(settings.margin),
            out.settings.positive.eq(settings.self_weight),
            out.settings.negative.eq(settings.neighbour_weight),
            out.settings.last_beat.eq(settings.last_beat),
        ]
        return out

    def _rows(self, m: Module, rows: stream.Interface) -> None:
        """Send the number of the destination's own row first, then one for each word; report unknown sources."""
        settings, word = self.settings, self.i.payload
        own = Signal(init=1)
        vertex = Signal.like(settings.combined, reset_less=True)  # number of the destination's own row
        source = Signal(32)
        known = Signal()
        first_partial = Signal(32)
        coefficient, weight = Signal(Coefficient), Signal(signed(VALUE_BITS))
        high = Signal()  # the source is the high half of a partial sum
        m.d.comb += [
            source.eq(word.data - settings.first_source),
            known.eq(~word.empty & (word.data >= settings.first_source) & (source < settings.sources)),
            first_partial.eq(settings.sources - settings.partials),
            high.eq(is_high_half(source, first_partial)),
            rows.payload.tag.first.eq(own),
        ]
        with m.If(own):
            m.d.comb += [
                rows.valid.eq(self.i.valid),
                rows.payload.index.eq(vertex),
                rows.payload.tag.coefficient.eq(Coefficient.SELF),
                rows.payload.tag.scalar.eq(settings.self_weight),
                rows.payload.tag.last.eq(word.empty & word.last),
                # A destination without sources ends with its own row.
                self.i.ready.eq(rows.ready & word.empty & word.last),
            ]
        with m.Else():
            m.d.comb += [
                rows.valid.eq(self.i.valid & (~word.empty | word.last)),
                rows.payload.index.eq(Mux(known, source, vertex)),
                rows.payload.tag.coefficient.eq(coefficient),
                rows.payload.tag.scalar.eq(weight),
                rows.payload.tag.last.eq(word.last),
                self.i.ready.eq(rows.ready),
                self.error.valid.eq(self.i.valid & rows.ready & ~word.empty & ~known),
            ]
        with m.If(known):
            m.d.comb += [
                coefficient.eq(Mux(high, Coefficient.NEIGHBOUR_HIGH, Coefficient.NEIGHBOUR)),
                weight.eq(Mux(settings.weighted, word.weight, settings.neighbour_weight)),
            ]
        m.d.comb += [self.error.payload.code.eq(Error.VID_RANGE), self.error.payload.info.eq(word.data)]
        with m.If(rows.valid & rows.ready):
            m.d.sync += own.eq(rows.payload.tag.last)
            with m.If(rows.payload.tag.last):
                m.d.sync += vertex.eq(vertex + 1)
        with m.If(self.start):
            m.d.sync += [own.eq(1), vertex.eq(settings.first_own)]

    def _request(self, m: Module, rows: stream.Interface, requests: stream.Interface, tags: stream.Interface) -> None:
        """Request the beats of a row one by one, so that rows need no alignment beyond a beat; queue their tags."""
        row = rows.payload
        beat = Signal.like(self.settings.last_beat)
        last_beat = beat == self.settings.last_beat
        m.d.comb += [
            requests.valid.eq(rows.valid),
            tags.valid.eq(rows.valid & requests.ready),
            rows.ready.eq(requests.ready & last_beat),
            requests.payload.address.eq(row.index + beat),
            tags.payload.coefficient.eq(row.tag.coefficient),
            tags.payload.scalar.eq(row.tag.scalar),
            tags.payload.first.eq(row.tag.first & (beat == 0)),
            tags.payload.last.eq(row.tag.last & last_beat),
        ]
        with m.If(rows.valid & requests.ready):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))


def gather_unit(pe: PEConfig, depth: int) -> GatherUnit:
    """Return a unit for the combined rows of these PEs, and for parts of their rows of features at any distance."""
    stride = (1 << row_beats_width(pe.data_width)) - 1
    return GatherUnit(
        pe.address_width, pe.data_width, max(pe.max_beats, pe.max_feature_beats), depth, stride, attention=True
    )
