"""Layers on small graphs for the benches of the community processor, and the memory beside it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import cocotb
import numpy as np
from scipy import sparse

from contracts import Activation
from contracts.communities import PIECE_BITS
from contracts.scale import Scales
from golden.community.layer import Aggregation, aggregate_records
from golden.community.plan import Kind, Scheme
from golden.graph import Graph
from golden.locator.locator import Limits, locate
from golden.locator.record import Record, beats_of
from golden.locator.schedule import Schedule
from golden.model.layer import Int16Array, OwnRows, QuantisedLayer, combine
from hw.community.formats import PES, CommunityConfig
from sim.harness.bench import Bench
from sim.harness.codec import Codec

__all__ = ["Layer", "PEPorts", "layer_of", "pieces_of", "record_words"]


#: More than the VIDs of any graph here.
_VIDS = 1024


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer on a graph, its records, and what must come out.

    Attributes
    ----------
    graph, records
        The graph and what the golden locator finds in it.
    features
        int16 [nodes, f_in], dense or sparse.
    layer
        Its parameters.
    source, destination
        s_src and s_dst.
    scheme
        How sums are shared.
    summed
        VIDs whose sums are wanted.
    own_features, own
        Features, and their scales, that own rows come from, if the layer is rooted.
    """

    graph: Graph
    records: list[Record]
    features: Any
    layer: QuantisedLayer
    source: Scales
    destination: Scales
    scheme: Scheme
    summed: range
    own_features: Any = None
    own: Scales | None = None

    @property
    def combined(self) -> Int16Array:
        """int16 [nodes, f_out], all combined rows."""
        return combine(self.features, self.layer.weights, self.source, self.layer.shift_source)

    @property
    def root(self) -> OwnRows | None:
        """Own rows, if it is rooted."""
        if self.own is None:
            return None
        rows = combine(self.own_features, self.layer.weights, self.own, self.layer.shift_source)
        return OwnRows(rows, self.destination.exponent)

    def expected(self) -> Aggregation:
        """Return exact results and operations."""
        wanted = np.zeros(self.graph.nodes, dtype=np.bool_)
        wanted[self.summed] = True
        return aggregate_records(
            self.records, self.combined, self.destination, self.layer, self.scheme, wanted, self.root
        )


def _scales(rng: np.random.Generator, nodes: int, most: int = 3) -> Scales:
    mantissa = rng.integers(1 << 15, 1 << 16, nodes).astype(np.uint16)
    return Scales(mantissa, rng.integers(0, most + 1, nodes).astype(np.uint8))


def layer_of(
    graph: Graph,
    config: CommunityConfig,
    rng: random.Random,
    *,
    f_out: int,
    scheme: Scheme,
    gin: bool = False,
    dense: bool = False,
    rooted: bool = False,
    activation: Activation = Activation.RELU,
    schedule: Schedule | None = None,
    summed: range | None = None,
) -> Layer:
    """Return a random layer on a graph whose values spread over the range and past it.

    Parameters
    ----------
    graph
        Any symmetric one.
    config
        Of the PE, which bounds records and features.
    rng
        Source of random choices.
    f_out
        Output features.
    scheme
        How sums are shared.
    gin
        Weigh the node itself apart.
    dense
        Dense features instead of sparse ones.
    rooted
        Own rows besides, of other features.
    activation
        What happens to a result.
    schedule
        Of thresholds.
    summed
        VIDs whose sums are wanted; default: all.
    """
    numbers = np.random.default_rng(rng.getrandbits(64))
    half = config.width // 2
    records = locate(graph, schedule or Schedule(rng.choice((2, 4, 8))), Limits(half, half, max(64, half))).records
    chunks = 1 << (-(-f_out // config.lanes) - 1).bit_length()
    f_in = rng.randrange(1, config.weight_rows // chunks + 1)

    def features() -> Any:
        shape = (graph.nodes, f_in)
        values = numbers.integers(-(1 << 15), 1 << 15, shape) >> numbers.integers(0, 16, shape)
        values[numbers.random(values.shape) < (0.5 if dense else 0.8)] = 0
        return values.astype(np.int16) if dense else sparse.csr_array(values.astype(np.int16))

    given = features()
    # The weight of an own row has 16 bits.
    most = (5 if gin else 14) if rooted else 3
    layer = QuantisedLayer(
        (numbers.integers(-(1 << 15), 1 << 15, (f_in, f_out)) >> numbers.integers(0, 12, (f_in, f_out))).astype(
            np.int16
        ),
        numbers.integers(-(1 << 29), 1 << 29, f_out).astype(np.int32),
        rng.randrange(22, 32),
        rng.randrange(14, 20) + 8 * gin,
        activation,
        *((rng.randrange(-600, 600), 256) if gin else (1, 1)),
    )
    return Layer(
        graph,
        records,
        given,
        layer,
        _scales(numbers, graph.nodes),
        _scales(numbers, graph.nodes, most),
        scheme,
        range(graph.nodes) if summed is None else summed,
        *((features(), _scales(numbers, graph.nodes)) if rooted else ()),
    )


def record_words(record: Record, piece: int | None = None) -> list[dict[str, int]]:
    """Return a record, or its share of a piece, as beats of its stream."""
    beats = beats_of(record, piece)
    return [{"data": beat, "last": int(n == len(beats) - 1)} for n, beat in enumerate(beats)]


def pieces_of(record: Record, width: int) -> dict[int, range]:
    """Return the node rows of every piece of a record, where records have `width` rows at most."""
    nodes, size = record.nodes.size, width >> PIECE_BITS
    return {first // size: range(first, min(first + size, nodes)) for first in range(0, nodes, size)}


class PEPorts:
    """A community PE's surroundings: answers what it asks for and collects what it gives.

    Parameters
    ----------
    bench
        Its streams.
    config
        Of the PE.
    mixed
        Rows of nodes and hubs come in any order.
    """

    def __init__(self, bench: Bench, config: CommunityConfig, *, mixed: bool = False) -> None:
        self.bench, self.config = bench, config
        self.results: dict[int, dict[int, list[int]]] = defaultdict(dict)
        self.partials: dict[int, list[int]] = {}
        self.vectors: dict[int, int] = defaultdict(int)
        self.partial_chunks: dict[int, list[int]] = defaultdict(list)
        self.partial_count = 0
        #: VIDs and places of all nodes and hubs asked for.
        self.requests: dict[str, list[tuple[int, int]]] = {"node": [], "hub": []}
        self.done = 0
        #: Rows that come later, and where; None: they come at once.
        self.waiting: list[tuple[str, list[dict[str, Any]]]] | None = [] if mixed else None
        #: What VIDs are moved by on their way, so that small graphs have VIDs of all bits.
        self.moved = bench.random.randrange((1 << config.vid_bits) - _VIDS)

    def _outside(self, vid: Any) -> Any:
        """Return the VID that the PE knows a vertex by, or several."""
        return vid + self.moved

    def _inside(self, vid: int) -> int:
        """Return the vertex of a VID that the PE knows."""
        return vid - self.moved

    async def load(self, layer: Layer) -> None:
        """Write settings and biases, and prepare to answer."""
        bench, config = self.bench, self.config
        quantised, rng = layer.layer, bench.random
        f_out = quantised.weights.shape[1]
        chunks = -(-f_out // config.lanes)
        bench.dut.first.value = self._outside(layer.summed.start)
        bench.dut.vertices.value = len(layer.summed)
        windows = int(layer.scheme.kind is Kind.WINDOW)
        bench.dut.settings.value = Codec(config.settings).pack(
            {
                "windows": windows,
                # Pairs have no width.
                "k": layer.scheme.k - 1 if windows else rng.randrange(8),
                "limit": layer.scheme.room,
                "last_chunk": chunks - 1,
                "f_out": f_out,
                "shift": quantised.shift_destination,
                "relu": int(quantised.activation == Activation.RELU),
                "bias": int(quantised.activation != Activation.DNP),
                "wide": int(quantised.neighbour_weight == 256),
                "own": quantised.self_weight - (0 if layer.own else quantised.neighbour_weight),
                "rooted": int(layer.own is not None),
            }
        )
        bench.drive("bias_write", [{"address": n, "data": int(bias)} for n, bias in enumerate(quantised.biases)])
        await bench.drain(20_000, quiet=1)
        self.layer, self.combined = layer, layer.combined
        bench.take("node_request", self._node)
        bench.take("hub_request", self._hub)
        bench.take("o", self._result)
        bench.take("partial", self._partial)
        if self.waiting is not None:
            cocotb.start_soon(self._release())

    async def _release(self) -> None:
        """Now and then let one of the rows come that wait."""
        while True:
            await self.bench.cycles(self.bench.random.randrange(1, 12))
            if self.waiting:
                self.bench.drive(*self.waiting.pop(self.bench.random.randrange(len(self.waiting))))

    def records(self, records: Iterable[Record]) -> None:
        """Offer records."""
        for record in records:
            self.share(record, None)

    def share(self, record: Record, piece: int | None) -> None:
        """Offer a record, or its share of a piece."""
        moved = replace(record, nodes=self._outside(record.nodes), hubs=self._outside(record.hubs))
        self.bench.drive("records", record_words(moved, piece))

    def _node(self, request: dict[str, int]) -> None:
        """Answer with the combined row of a node, and before it with its own one in a rooted layer."""
        vid = self._inside(request["vid"])
        self.requests["node"].append((vid, request["slot"]))
        root = self.layer.root
        beats = [] if root is None else self._row(request, vid, root.rows[vid], 1)
        beats += self._row(request, vid, self.combined[vid], 0)
        self._come("rows", beats)

    def _come(self, port: str, beats: list[dict[str, Any]]) -> None:
        """Have a row come, at once or some time."""
        if self.waiting is None:
            self.bench.drive(port, beats)
        else:
            self.waiting.append((port, beats))

    def _row(self, request: dict[str, int], vid: int, row: Any, root: int) -> list[dict[str, Any]]:
        """Return the beats of a row that was asked for; what pads it means nothing."""
        elements, rng = self.config.pe.elements, self.bench.random
        tag = {**request, "pe": rng.randrange(PES), "apart": 0, "root": root, "scale": self._s_dst(vid)}
        beats = []
        for beat, at in enumerate(range(0, len(row), elements)):
            values = [int(value) for value in row[at : at + elements]]
            values += [rng.randrange(100) for _ in range(elements - len(values))]
            address = Codec(self.config.tag).pack({"beat": beat, **tag})
            beats.append({"address": address, "data": values, "last": int(at + elements >= len(row))})
        return beats

    def _s_dst(self, vid: int) -> dict[str, int]:
        scales = self.layer.destination
        return {"mantissa": int(scales.mantissa[vid]), "exponent": int(scales.exponent[vid]), "reserved": 0}

    def _hub(self, request: dict[str, int]) -> None:
        """Answer with the combined row of a hub."""
        vid = self._inside(request["vid"])
        self.requests["hub"].append((vid, request["slot"]))
        row = [int(value) for value in self.combined[vid]]
        elements, beats = self.config.pe.elements, []
        for at in range(0, len(row), elements):
            values = row[at : at + elements]
            values += [self.bench.random.randrange(100) for _ in range(elements - len(values))]
            place = {"pe": self.bench.random.randrange(PES), "slot": request["slot"], "alone": request["alone"]}
            beats.append({**place, "data": values, "last": int(at + elements >= len(row))})
        self._come("hub_rows", beats)

    def _result(self, beat: dict[str, Any]) -> None:
        vid = self._inside(beat["vid"])
        assert beat["beat"] not in self.results[vid], f"beat {beat['beat']} of {vid} came twice"
        self.results[vid][beat["beat"]] = beat["data"]
        self.done += beat["last"]

    def _partial(self, chunk: dict[str, Any]) -> None:
        vid = self._inside(chunk["vid"])
        chunks = self.partial_chunks[vid]
        assert chunk["chunk"] * self.config.lanes == len(chunks), f"chunk {chunk['chunk']} of {vid} is out of order"
        # An empty one has what memory had before.
        chunks += [0] * self.config.lanes if chunk.get("empty") else chunk["data"]
        if chunk["last"]:
            sums = self.partials.setdefault(vid, [0] * len(chunks))
            self.partials[vid] = [a + b for a, b in zip(sums, chunks, strict=True)]
            self.partial_chunks[vid] = []
            self.partial_count += 1
            self.vectors[vid] += chunk["vectors"]

    def rows(self) -> dict[int, list[int]]:
        """Return the result rows that have come, by VID."""
        f_out = self.layer.layer.f_out
        return {
            vid: [value for number in sorted(beats) for value in beats[number]][:f_out]
            for vid, beats in self.results.items()
        }
