"""Sizes and payloads of combiners and community PEs."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from amaranth import signed, unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from contracts import DIGIT_BITS, PARTIAL_BITS, SCALE, VALUE_BITS, VID_BITS
from contracts.communities import PARTNERS_MAX
from contracts.parameters import Parameters, size
from hw.contracts import struct
from hw.pe.formats import PEConfig

__all__ = ["PES", "RECORDS", "CommunityConfig", "HubConfig", "extended"]

#: Most records in progress in a PE: the rows of a distributed RAM.
RECORDS = 32
#: Beats of features in registers of a combiner.
_REGISTERS = 2
#: Most PEs.
PES = 32


@dataclass(frozen=True)
class CommunityConfig(Parameters):
    """Sizes of a community PE and of a combiner, fixed at generation.

    Parameters
    ----------
    lanes
        Adders of a PE L, at most ``data_width / 16``.
    multipliers
        Multipliers of a combiner, at most ``data_width / 16``; 0: as many as `lanes`.
    rounders
        Elements of a row that a combiner rounds in a cycle, as ``ways`` of `hw.pe.formats.PEConfig`.
    queue
        Beats of features on their way to a combiner or in front of it: with lanes for a whole row of outputs it takes a
        beat in as many cycles as a beat has features, and a beat takes the memory's latency to come.
    width
        Most nodes and hubs of a record together.
    columns
        Most vectors of a record, shared sums included: more than `width`.
    partners
        Columns after a column that it is compared with; two fewer in records of more than an eighth of `columns`.
    max_out
        Largest number of output features.
    weight_rows
        Rows of weights in a combiner, as in `hw.pe.formats.PEConfig`: one weight a multiplier.
    data_width
        Bits of a beat of features or results.
    ways
        Elements that a row finisher takes through the second rounding point in a cycle, at most `lanes`.
    partials
        Whether rows may be halves of partial sums from the ring: sums of records are then as wide as whole sums, and
        high halves count 2^16 times.
    vid_bits
        Bits of the VIDs in records.
    shares
        Whether records may be shares of others, which are split over PEs (I5).

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    lanes: int = size(8, 1, lambda pe: pe.data_width // VALUE_BITS, power=True)
    multipliers: int = size(0, 1, lambda pe: pe.data_width // VALUE_BITS, power=True, zero=True)
    rounders: int = size(
        1, 1, lambda pe: PEConfig(lanes=pe.multipliers or pe.lanes, data_width=pe.data_width).half, power=True
    )
    queue: int = size(16, 2, 64)
    width: int = size(128, 8, 256, power=True)
    columns: int = size(256, lambda pe: 2 * pe.width, 1024, power=True)
    partners: int = size(8, 1, PARTNERS_MAX)
    max_out: int = size(16, 1, 1024)
    weight_rows: int = size(4096, 2, 1 << 20)
    data_width: int = size(256, values=(64, 128, 256))
    ways: int = size(1, 1, lambda pe: pe.lanes, power=True)
    partials: bool = False
    vid_bits: int = size(VID_BITS, 3, VID_BITS)
    shares: bool = False

    @property
    def slots(self) -> int:
        """Rows of all records in progress: two of the widest, or many small ones. Slots are allocated as a ring."""
        return 2 * self.width

    @property
    def pe(self) -> PEConfig:
        """Sizes of a combiner."""
        sizes: dict[str, Any] = {
            "lanes": self.multipliers or self.lanes,
            "data_width": self.data_width,
            "max_out": self.max_out,
            "ways": self.rounders,
            "queue": _REGISTERS,
        }
        # A row returns with its tag, which lies in the address field; the PE increments that field from beat to beat.
        bits = self._tag(len(DIGIT_BITS) * PEConfig(**sizes).max_beats).size + ceil_log2(self.data_width // 8)
        return PEConfig(**sizes, weight_rows=self.weight_rows, address_width=bits, aggregates=False)

    def fed_beat(self, combiners: int) -> data.StructLayout:
        """Return the layout of a beat of features and the number of the combiner that it is for."""
        return data.StructLayout({"combiner": range(max(2, combiners)), "beat": self.pe.task_beat})

    @property
    def row_beats(self) -> int:
        """Beats of the longest row that a combiner returns: three rows of digits."""
        return len(DIGIT_BITS) * self.pe.max_beats

    def _tag(self, beats: int) -> data.StructLayout:
        return data.StructLayout({"beat": range(max(2, beats)), **self.wish.members, "root": 1, "scale": struct(SCALE)})

    @property
    def wish(self) -> data.StructLayout:
        """A vertex to combine: ``vid``; ``apart``: for a hub unit or as a result, otherwise for the ``slot`` of ``pe``.

        ``alone``: as in `request`. VIDs of results are those of all vertices, not only of those in records.
        """
        return data.StructLayout({**self.request.members, "pe": range(PES), "apart": 1, "vid": VID_BITS})

    @property
    def hub_request(self) -> data.StructLayout:
        """A request for a hub's row with the ``pe`` that it comes from; ``apart``: it is a prefetch of no PE.

        ``head``: it is of the record that the hub itself has first, so its degree is known.
        """
        return data.StructLayout({**self.pe_request.members, "pe": range(PES), "apart": 1})

    @property
    def pe_request(self) -> data.StructLayout:
        """A `hub_request` of a PE."""
        return data.StructLayout({**self.request.members, "head": 1})

    @property
    def tag(self) -> data.StructLayout:
        """Tag of a row on its way through a combiner: the `wish` for it and the factor s_dst.

        ``root``: it is the vertex's own row of a rooted layer, which comes before its combined row. ``beat``: of the
        row.
        """
        return self._tag(self.row_beats)

    def tag_of(self, beat: Any) -> Any:
        """Return the `tag` of a beat of features or of a combined row.

        The combiner returns it with the row as the row's address, and counts its lowest field, ``beat``, up from beat
        to beat.

        Parameters
        ----------
        beat
            Payload of ``pe.task_beat`` or ``pe.row_beat``.
        """
        return data.View(self.tag, beat.address)

    @property
    def chunks(self) -> int:
        """Chunks of L elements in the longest vector, rounded up to a power of two."""
        return replace(self.pe, lanes=self.lanes).max_chunks

    @property
    def parts(self) -> int:
        """Chunks of L elements in a beat."""
        return self.pe.elements // self.lanes

    @property
    def sum_bits(self) -> int:
        """Width of an element of a sum over a record: of `width` values, or a whole sum with `partials`."""
        return PARTIAL_BITS if self.partials else VALUE_BITS + ceil_log2(self.width)

    @property
    def row_bits(self) -> int:
        """Bits of a row's number."""
        return ceil_log2(self.width)

    @property
    def column_bits(self) -> int:
        """Bits of a column's number."""
        return ceil_log2(self.columns)

    @property
    def vector(self) -> data.ArrayLayout:
        """L elements of a combined row."""
        return data.ArrayLayout(signed(VALUE_BITS), self.lanes)

    @property
    def _high(self) -> dict[str, int]:
        return {"high": 1} if self.partials else {}

    @property
    def kept_vector(self) -> data.StructLayout:
        """L elements of a row of a record; with `partials`, whether it is a ``high`` half, of weight 2^16."""
        return data.StructLayout({"data": self.vector, **self._high})

    @property
    def chunk(self) -> data.ArrayLayout:
        """L elements of a sum."""
        return data.ArrayLayout(signed(self.sum_bits), self.lanes)

    @property
    def settings(self) -> data.StructLayout:
        """Settings of a command for all its records, beside those of the combiners.

        ``windows``: windows of k instead of pairs. ``k``: columns of a window, less one. ``limit``: most columns.
        ``last_chunk``, ``f_out``: of a vector. ``shift``, ``relu``, ``bias``: of the second rounding point. ``wide``:
        a neighbour has the weight 256. ``own``: excess weight of the node itself over a neighbour. ``rooted``: sums are
        those of neighbours alone, the node has an own row, and ``own`` is its weight, times 2^(exponent of s_dst).
        """
        return data.StructLayout(
            {
                "windows": 1,
                "k": 3,
                "limit": self.column_bits + 1,
                "last_chunk": range(self.chunks),
                "f_out": range(self.max_out + 1),
                "shift": 6,
                "relu": 1,
                "bias": 1,
                "wide": 1,
                "own": signed(VALUE_BITS + 1),
                "rooted": 1,
            }
        )

    @property
    def request(self) -> data.StructLayout:
        """Request of a column's vector: that of the vertex ``vid``, for a ``slot`` of the PE.

        ``alone``: its record has no other row.
        """
        return data.StructLayout({"vid": self.vid_bits, "slot": range(self.slots), "alone": 1})

    @property
    def vertex(self) -> data.StructLayout:
        """A vertex of a record, as in its `request`, and whether it is ``summed``."""
        return data.StructLayout({**self.request.members, "summed": 1})

    @property
    def kept(self) -> data.StructLayout:
        """Whether the row at ``slot`` is kept: a node row of a share, or that of a hub joined to one of these."""
        return data.StructLayout({"slot": range(self.slots), "kept": 1})

    @property
    def record(self) -> data.StructLayout:
        """A record in progress.

        ``base``: slot of its first row. ``rows``: their number, of which the first ``nodes`` are nodes. ``single``: its
        bitmap has one row, so no two columns have more than that one in common. ``later``: it is a part behind the
        first, in which no node is joined to itself.
        """
        return data.StructLayout(
            {
                "base": range(self.slots),
                "rows": self.row_bits + 1,
                "nodes": self.row_bits + 1,
                "single": 1,
                "later": 1,
            }
        )

    @property
    def vectors(self) -> data.StructLayout:
        """Number of nodes whose ``vectors`` are added to the row at ``slot``, a hub's: fewer than there are rows."""
        return data.StructLayout({"slot": range(self.slots), "vectors": self.row_bits})

    @property
    def read_record(self) -> data.StructLayout:
        """A `record` that has been read.

        ``planned``: its columns are kept for the planner, otherwise it has one node. ``wanted``, ``own``, only then:
        the node's row is summed; its own vector is added to it.
        """
        return data.StructLayout({**self.record.members, "planned": 1, "wanted": 1, "own": 1})

    @property
    def task(self) -> data.StructLayout:
        """As `golden.community.plan.Task`; ``last``: of its record, which may have no rows."""
        return data.StructLayout(
            {
                "index": self.column_bits,
                "rows": self.width,
                "negative": 1,
                "form": 1,
                "left": self.column_bits,
                "right": self.column_bits,
                "last": 1,
            }
        )

    @property
    def step(self) -> data.StructLayout:
        """One vector operation.

        ``form``: column ``index`` becomes the sum of ``left`` and ``index``'s other operand ``right``. Otherwise
        ``right`` is added to ``row``, or with ``negative`` subtracted. Without ``active`` there is no operation, as in
        the ``last`` one of a record that is planned.
        """
        return data.StructLayout(
            {
                "active": 1,
                "form": 1,
                "negative": 1,
                "last": 1,
                "row": self.row_bits,
                "index": self.column_bits,
                "left": self.column_bits,
                "right": self.column_bits,
            }
        )

    @property
    def record_step(self) -> data.StructLayout:
        """A `step` and its record; with the ``last`` step the record is complete."""
        return data.StructLayout({"record": self.record, "step": self.step})

    @property
    def partial(self) -> data.StructLayout:
        """A chunk of a partial sum of the hub ``vid``; ``last`` ends it. ``vectors``: of how many it is the sum.

        ``empty``, with `shares`: nothing was added to it, and ``data`` means nothing.
        """
        return data.StructLayout(
            {
                "vid": self.vid_bits,
                "chunk": range(self.chunks),
                "data": self.chunk,
                "last": 1,
                "vectors": self.row_bits + 1,
                **({"empty": 1} if self.shares else {}),
            }
        )

    @property
    def finish_chunk(self) -> data.StructLayout:
        """A chunk of a row whose sums are complete, for the row finishers; ``last`` ends the row of the vertex ``vid``.

        ``sums``: L elements, here as wide as a hub's. ``own``: L elements of the row that is weighed by itself: the
        combined one, or in a rooted layer the own one. ``mantissa``, ``exponent``: s_dst, the same in all chunks.
        """
        return self._finish_chunk(PARTIAL_BITS)

    @property
    def node_chunk(self) -> data.StructLayout:
        """A `finish_chunk` of a node's row, whose sums are those of a record."""
        return self._finish_chunk(self.sum_bits)

    def _finish_chunk(self, sum_bits: int) -> data.StructLayout:
        return data.StructLayout(
            {
                "vid": self.vid_bits,
                "chunk": range(self.chunks),
                "sums": data.ArrayLayout(signed(sum_bits), self.lanes),
                "own": self.vector,
                "mantissa": self.scale.members["mantissa"],
                "exponent": self.scale.members["exponent"],
                "last": 1,
            }
        )

    @property
    def result(self) -> data.StructLayout:
        """Beat ``beat`` of the result row of the vertex ``vid``; ``last`` ends it."""
        return data.StructLayout(
            {
                "vid": VID_BITS,
                "beat": range(max(2, self.row_beats)),
                "data": data.ArrayLayout(signed(VALUE_BITS), self.pe.elements),
                "last": 1,
            }
        )

    @property
    def scale(self) -> data.StructLayout:
        """A factor s_dst."""
        return struct(SCALE)

    @property
    def hub_row(self) -> data.StructLayout:
        """A beat of the combined row of a hub, for the ``slot`` of ``pe``.

        ``alone``: as in `request`. ``high``: as in `kept_vector`.
        """
        return data.StructLayout(
            {
                "pe": range(PES),
                "slot": range(self.slots),
                "alone": 1,
                "data": data.ArrayLayout(signed(VALUE_BITS), self.pe.elements),
                "last": unsigned(1),
                **self._high,
            }
        )


def extended(to: Any, chunk: Any) -> list[Any]:
    """Return assignments of a chunk to one whose ``sums`` have as many bits or more."""
    names = [name for name in to.shape().members if name != "sums"]
    return [
        *(to[name].eq(chunk[name]) for name in names),
        *(wide.eq(sum_) for wide, sum_ in zip(to.sums, chunk.sums, strict=True)),
    ]


class HubConfig(CommunityConfig):
    """Sizes of a hub unit: all hubs form one record of whole sums."""

    def __post_init__(self) -> None:
        """Check the size that differs from that of a PE."""
        if not (8 <= self.width <= 1 << 16 and self.width & (self.width - 1) == 0):
            raise ValueError(f"hubs must be a power of two in 8..65536, not {self.width!r}")

    @classmethod
    def of(cls, config: CommunityConfig, hubs: int) -> "HubConfig":
        """Return the sizes of `config`, with these `hubs`."""
        return cls(**{**asdict(config), "width": hubs})

    @property
    def slots(self) -> int:
        """Slots of one record."""
        return self.width

    @property
    def sum_bits(self) -> int:
        """Width of an element of a whole sum."""
        return PARTIAL_BITS
