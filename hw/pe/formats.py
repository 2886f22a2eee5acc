"""Payloads and settings of the gather PE."""

from dataclasses import dataclass
from typing import Any

from amaranth import Value, signed, unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from contracts import DIGIT_BITS, LINE_BYTES, SCALE, VALUE_BITS
from contracts.parameters import Parameters, size
from contracts.weights import GRANULE, WeightRoom
from hw.contracts import struct

__all__ = ["POWER_BITS", "Coefficient", "Mode", "PEConfig", "pairs", "requantise_input", "takes_rows"]

#: Bits of the exponent of a scale by which the factor of an own row is shifted.
POWER_BITS = 4


class Mode(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Contents of a task's beats."""

    #: Sparse features: index and value; the PE combines.
    SPARSE = 0
    #: Dense features, consecutive columns; the PE combines.
    DENSE = 1
    #: Combined rows of the vertex and its neighbours; the PE gathers.
    GATHER = 2
    #: Rows of digits, padded to granules; the PE adds up what they stand for.
    DIGITS = 3


class Coefficient(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What a combined row is to its destination."""

    #: Nothing: it counts 0 times.
    ZERO = 0
    #: Its own row.
    SELF = 1
    NEIGHBOUR = 2
    #: A neighbour's row that counts 2^16 times: the upper half of a partial sum.
    NEIGHBOUR_HIGH = 3


def takes_rows(mode: Any) -> Value:
    """Return whether the lanes take elements of rows, not of weights."""
    return (mode == Mode.GATHER) | (mode == Mode.DIGITS)


def pairs(settings: Any, config: "PEConfig") -> Value:
    """Return whether the halves of the lanes work on features of their own: on even ones, and on odd ones.

    So it is where a row of results takes at most half of the lanes. Weights of both features then share a row.

    Parameters
    ----------
    settings
        View of ``config.settings``.
    config
        Of the PE.
    """
    return (settings.f_out <= config.lanes // 2) & ~takes_rows(settings.mode)


def requantise_input(value_bits: int, *, bias: bool) -> data.StructLayout:
    """Return the layout of a requantiser's operands for one element; see `hw.pe.requantiser`."""
    more: dict[str, Any] = {"bias": signed(32), "relu": unsigned(1)} if bias else {}
    return data.StructLayout({"value": signed(value_bits), "scale": struct(SCALE), "shift": unsigned(6), **more})


@dataclass(frozen=True)
class PEConfig(Parameters):
    """Sizes of a PE, fixed at generation.

    Parameters
    ----------
    lanes
        Multipliers L, at most ``data_width / 16``.
    data_width
        Bits of a memory beat.
    address_width
        Bits of a byte address, or of the tag that returns with each row.
    weight_rows
        Rows of L weights in the weight memory: a layer needs its input features times the chunks of an output row,
        rounded up to a power of two.
    max_out
        Largest number of output features.
    queue
        Beats queued in front of the PE. A longer task stalls the tasks of other PEs; 16 beats cost no more than 4 in
        distributed RAM. One or two are kept in registers, which cost no LUTs but take a beat every second cycle only.
    ways
        Elements of a row that are rounded in a cycle: at most half of the lanes, and 1 if there is but one lane.
    aggregates
        Whether gathered rows have factors of their own, and results biases and an activation. Without, rows count once
        and results are those of the first rounding point.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    lanes: int = size(16, 1, lambda pe: pe.elements, power=True)
    data_width: int = size(256, values=(64, 128, 256))
    address_width: int = size(32, 20, 96)
    weight_rows: int = size(2048, 2, 1 << 20)
    max_out: int = size(64, 1, 1024)
    queue: int = size(16, 1)
    ways: int = size(1, 1, lambda pe: pe.half, power=True)
    aggregates: bool = True

    @property
    def elements(self) -> int:
        """16-bit elements of a beat."""
        return self.data_width // VALUE_BITS

    @property
    def parts(self) -> int:
        """Chunks of L elements in a beat."""
        return self.elements // self.lanes

    @property
    def half(self) -> int:
        """Lanes of the lower half; one lane is a lower half alone."""
        return max(1, self.lanes // 2)

    @property
    def single(self) -> bool:
        """Whether every row has one chunk, those of digits included, which end at granules."""
        return max(self.max_out, GRANULE) <= self.lanes

    @property
    def max_chunks(self) -> int:
        """Chunks of L elements in the longest output row, rounded up to a power of two: at least 2, and a granule."""
        return max(GRANULE // self.lanes, self._row_chunks)

    @property
    def _row_chunks(self) -> int:
        return max(2, 1 << ceil_log2(-(-self.max_out // self.lanes)))

    @property
    def banks(self) -> int:
        """Tasks whose sums are held at once: as many as fill a distributed RAM of 16 rows, 2 to 4.

        With 2, a bank's latency through issue unit, lanes and drain limits tasks about as long as their row. Less so
        if rows have a single chunk: then banks are held beside the sums that add up, and a task takes one with its last
        operation, not with its first. Sums move from one to the other, in which they are read.
        """
        return 2 if self.single else min(4, max(2, 16 // self._row_chunks))

    @property
    def weight_room(self) -> WeightRoom:
        """Room for the weights of a layer; one that exceeds it is computed in blocks of columns."""
        return WeightRoom(self.lanes, self.weight_rows, self.max_out)

    @property
    def max_beats(self) -> int:
        """Beats of the longest output row."""
        row = -(-self.max_out * VALUE_BITS // (LINE_BYTES * 4)) * LINE_BYTES * 4
        return row // self.data_width

    @property
    def max_feature_beats(self) -> int:
        """Beats of the longest dense row of features, of those that have room for their weights, at least 1."""
        return -(-self.weight_rows // self.elements)

    @property
    def beat_address_width(self) -> int:
        """Bits of a beat's address: a byte address without the bits inside a beat."""
        return self.address_width - ceil_log2(self.data_width // 8)

    @property
    def counted_bits(self) -> int:
        """Low bits of an address that count the beats of a row: all, or of a tag its lowest field, 0 in a task."""
        return self.beat_address_width if self.aggregates else ceil_log2(max(2, len(DIGIT_BITS) * self.max_beats))

    @property
    def high_bits(self) -> int:
        """Places that ``high`` moves a product up: those below the upper half of a partial sum, or the last digit."""
        return VALUE_BITS if self.aggregates else sum(DIGIT_BITS[:-1])

    @property
    def task_beat(self) -> data.StructLayout:
        """A beat of a task; `first` and `last` delimit the task, `address` and `scale` come with `first`.

        If the settings say that tasks attend, `scale` comes with `last`.
        `mask` counts when combining; when gathering, the row counts `scalar` times, 2^16 times that if `high`.
        """
        factor = {"scalar": signed(VALUE_BITS), "high": unsigned(1)} if self.aggregates else {}
        return data.StructLayout(
            {
                "data": data.ArrayLayout(signed(VALUE_BITS), self.elements),
                # One bit an element; sparse entries use the bit of their index.
                "mask": unsigned(self.elements),
                **factor,
                "first": unsigned(1),
                "last": unsigned(1),
                "address": unsigned(self.beat_address_width),
                "scale": struct(SCALE),
            }
        )

    @property
    def settings(self) -> data.StructLayout:
        """Settings of a command, constant while any task is under way.

        ``bias``: add the biases, at the second rounding point only. ``attends``: the factor of a task's sums comes with
        its last beat.
        """
        aggregation = {"relu": unsigned(1), "bias": unsigned(1), "attends": unsigned(1)} if self.aggregates else {}
        return data.StructLayout(
            {
                "mode": Mode,
                "f_in": unsigned(17),
                "f_out": range(self.max_out + 1),
                # Chunks of a row, less one, and the power of two above that spaces weight rows.
                "last_chunk": range(self.max_chunks),
                "chunk_shift": range(ceil_log2(self.max_chunks) + 1),
                "shift": unsigned(6),
                # Results are the digits of the sums: for each, a row that begins at a granule; `last_chunk` ends it.
                "digits": unsigned(1),
                **aggregation,
            }
        )

    @property
    def operation(self) -> data.StructLayout:
        """One cycle's work of the lanes: scalars times vector added to a chunk's sums."""
        return data.StructLayout(
            {
                # Of the lower and of the upper half of the lanes.
                "scalars": data.ArrayLayout(signed(VALUE_BITS), 2),
                "vector": data.ArrayLayout(signed(VALUE_BITS), self.lanes),
                "chunk": range(self.max_chunks),
                # The product counts 2^`high_bits` times.
                "high": unsigned(1),
                # First of its task: starts from zero. Last of its task: the sums are complete.
                "first": unsigned(1),
                "last": unsigned(1),
            }
        )

    @property
    def weight_addresses(self) -> data.ArrayLayout:
        """Rows of weights for the lower and the upper half of the lanes."""
        return data.ArrayLayout(range(self.weight_rows), 2)

    @property
    def weights(self) -> data.ArrayLayout:
        """Weights of all lanes."""
        return data.ArrayLayout(signed(VALUE_BITS), self.lanes)

    @property
    def weight_write(self) -> data.StructLayout:
        """One row of L weights for the weight memory; of `pairs`, of an even feature and of the odd one behind it."""
        return data.StructLayout(
            {"address": range(self.weight_rows), "data": data.ArrayLayout(signed(VALUE_BITS), self.lanes)}
        )

    @property
    def bias_write(self) -> data.StructLayout:
        """One bias."""
        return data.StructLayout({"address": range(max(2, self.max_out)), "data": signed(32)})

    @property
    def task(self) -> data.StructLayout:
        """Description of a task for the drain: address and factor of its row or rows."""
        return data.StructLayout({"address": unsigned(self.beat_address_width), "scale": struct(SCALE)})

    @property
    def row_beat(self) -> data.StructLayout:
        """A beat of a result; `last` ends its row, or its last row of digits."""
        return data.StructLayout(
            {
                "address": unsigned(self.beat_address_width),
                "data": data.ArrayLayout(signed(VALUE_BITS), self.elements),
                "last": unsigned(1),
            }
        )
