"""Gather PE: the result rows of tasks, beat by beat, and the cycles they take.

A task is a list of beats. When combining, its beats hold the features of one vertex, sparse or dense; when gathering,
they hold the combined rows of a vertex and of its neighbours, one after another; or rows of digits, which are added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from contracts import DIGIT_BITS
from contracts.weights import GRANULE
from golden.model.layer import Int16Array, Int32Array
from golden.model.rounding import requantise

__all__ = [
    "Beat",
    "Layer",
    "Mode",
    "RowBeat",
    "Sizes",
    "Task",
    "cycles",
    "digits_of",
    "operations",
    "result",
    "row_beats",
    "sum_of_digits",
    "sums",
]

#: Cycles from a task's last operation until its sums can be read: element, weights, operands, product, shift, sum.
SUM_LATENCY = 6
#: Those of a single chunk move once more. Their bank is given back so many cycles before it has been read, or when that
#: begins: a task that waits for it writes it then.
MOVE, AHEAD = 1, 6
#: Cycles from reading the last group of a beat until the beat is packed (biases take one of them), and from there until
#: it can leave.
PACK_LATENCY, CHAIN_LATENCY, QUEUE_LATENCY = 10, 2, 1
#: Cycles from a beat at the input until its first operation, but for the queue's: register.
ISSUE_LATENCY = 1
#: Beats that wait to be written in registers, if a beat takes so many cycles or more, and else.
FEW_BEATS, MANY_BEATS, LONG_BEAT = 2, 16, 8


class Mode(IntEnum):
    """Contents of a task's beats."""

    SPARSE = 0
    DENSE = 1
    GATHER = 2
    DIGITS = 3


@dataclass(frozen=True, eq=False)
class Layer:
    """Settings of a command for all tasks.

    Attributes
    ----------
    mode
        Contents of beats.
    weights
        int16 [f_in, f_out]; unused when gathering.
    biases
        int32 [f_out], 0 where none are added.
    shift
        0..63.
    relu
        Whether negative results become 0.
    digits
        Whether results are the digits of the sums, a row for each.
    """

    mode: Mode
    weights: Int16Array
    biases: Int32Array
    shift: int
    relu: bool = False
    digits: bool = False

    @property
    def f_in(self) -> int:
        """Features of an input row."""
        return int(self.weights.shape[0])

    @property
    def f_out(self) -> int:
        """Elements of a result row."""
        return int(self.weights.shape[1])


@dataclass(frozen=True, eq=False)
class Beat:
    """One beat of a task.

    Attributes
    ----------
    data
        int16 [elements]; sparse entries are pairs of index (unsigned) and value.
    mask
        bool [elements], elements that count; of a sparse entry that of its index. Ignored when gathering.
    factor
        Weight of its combined row.
    """

    data: Int16Array
    mask: npt.NDArray[np.bool_]
    factor: int = 0


@dataclass(frozen=True, eq=False)
class Task:
    """The work for one vertex.

    Attributes
    ----------
    beats
        At least one.
    address
        Beat address of the result row.
    mantissa, exponent
        Factor of the sums.
    """

    beats: Sequence[Beat]
    address: int
    mantissa: int
    exponent: int


@dataclass(frozen=True)
class RowBeat:
    """A beat of a result row.

    Attributes
    ----------
    address
        Its beat address.
    data
        Elements, 0 after the row's end.
    last
        Whether it ends the row.
    """

    address: int
    data: tuple[int, ...]
    last: bool


def _entries(task: Task, layer: Layer) -> list[list[tuple[int, int]]]:
    """Return index and value of the elements of each beat that the lanes process, those out of range included."""
    entries = []
    for number, beat in enumerate(task.beats):
        places = np.flatnonzero(beat.mask)
        if layer.mode == Mode.SPARSE:
            pairs = [(int(beat.data[k]) & 0xFFFF, int(beat.data[k + 1])) for k in places if k % 2 == 0]
            # Zero entries are padding.
            entries.append([pair for pair in pairs if any(pair)])
        else:
            first = number * len(beat.data)
            entries.append([(first + int(k), int(beat.data[k])) for k in places if beat.data[k]])
    return entries


def sums(task: Task, layer: Layer) -> npt.NDArray[np.int64]:
    """Return the exact sums of a task, int64 [f_out]; features whose index is not below f_in count as 0."""
    total = np.zeros(layer.f_out, np.int64)
    if layer.mode == Mode.GATHER:
        beats = _beats_of_row(layer.f_out, len(task.beats[0].data))
        for at in range(0, len(task.beats), beats):
            row = np.concatenate([beat.data for beat in task.beats[at : at + beats]])[: layer.f_out]
            total += task.beats[at].factor * row.astype(np.int64)
        return total
    if layer.mode == Mode.DIGITS:
        digits = np.concatenate([beat.data for beat in task.beats]).reshape(-1, _padded(layer.f_out))
        return sum_of_digits(digits[:, : layer.f_out])
    for index, value in (entry for beat in _entries(task, layer) for entry in beat):
        if index < layer.f_in:
            total += value * layer.weights[index].astype(np.int64)
    return total


def digits_of(total: npt.NDArray[np.int64]) -> Int16Array:
    """Return the digits of sums, int16 [3, ...], the lowest first; only the last one is signed."""
    shifts = np.cumsum([0, *DIGIT_BITS[:-1]])
    masks = [(1 << bits) - 1 for bits in DIGIT_BITS[:-1]] + [-1]
    return np.stack([total >> int(shift) & mask for shift, mask in zip(shifts, masks, strict=True)]).astype(np.int16)


def sum_of_digits(digits: Int16Array) -> npt.NDArray[np.int64]:
    """Return the sums of rows of digits, of which every three in turn are a number: int64 [f_out]."""
    shifts = np.cumsum([0, *DIGIT_BITS[:-1]])[np.arange(len(digits)) % len(DIGIT_BITS)]
    return np.asarray((digits.astype(np.int64) << shifts[:, None]).sum(axis=0))


def result(task: Task, layer: Layer) -> Int16Array:
    """Return the result row of a task, int16 [f_out]."""
    row = requantise(sums(task, layer), task.mantissa, task.exponent, layer.shift, layer.biases)
    return np.maximum(row, np.int16(0)) if layer.relu else row


def row_beats(task: Task, layer: Layer) -> list[RowBeat]:
    """Return the beats of the result row in the order in which they are written."""
    elements = len(task.beats[0].data)
    rows = digits_of(sums(task, layer)) if layer.digits else result(task, layer)[None]
    count, beats = len(rows), _beats_of_row(layer.f_out, elements)
    padded = np.zeros((count, _padded(layer.f_out)), np.int16)
    padded[:, : layer.f_out] = rows
    distance = padded.shape[1] // elements
    return [
        RowBeat(
            task.address + row * distance + n,
            tuple(map(int, padded[row, n * elements : (n + 1) * elements])),
            row == count - 1 and n == beats - 1,
        )
        for row in range(count)
        for n in range(beats)
    ]


def operations(task: Task, layer: Layer, lanes: int) -> list[tuple[int, bool]]:
    """Return the cycles of each beat, and whether the lanes work in them.

    A beat without elements takes one cycle, unless it ends its task: then the sums are touched once. Where a row takes
    at most half of the lanes, two elements of a dense row, an even one and an odd one, are combined at once.
    """
    chunks = -(-layer.f_out // lanes)
    if layer.mode == Mode.GATHER:
        elements = len(task.beats[0].data)
        parts, beats = elements // lanes, _beats_of_row(layer.f_out, elements)
        return [(min(parts, chunks - n % beats * parts), True) for n in range(len(task.beats))]
    if layer.mode == Mode.DIGITS:
        return [(len(beat.data) // lanes, True) for beat in task.beats]
    entries = _entries(task, layer)
    counts = [len(beat) for beat in entries]
    if layer.mode == Mode.DENSE and layer.f_out <= lanes // 2:
        odd = [sum(index % 2 for index, _ in beat) for beat in entries]
        counts = [max(some, count - some) for some, count in zip(odd, counts, strict=True)]
    last = len(counts) - 1
    return [(max(count, 1) * chunks, True) if count or n == last else (1, False) for n, count in enumerate(counts)]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a PE that decide about its cycles.

    Attributes
    ----------
    lanes
        Multipliers L.
    max_out
        Longest row.
    queue
        Beats queued in front.
    ways
        Elements of a row that are rounded in a cycle.
    aggregates
        Whether results have biases, whose addition takes a cycle.
    """

    lanes: int
    max_out: int
    queue: int
    ways: int
    aggregates: bool = True

    @property
    def single(self) -> bool:
        """Whether all rows, those of digits included, have a single chunk."""
        return self.lanes >= GRANULE and self.max_out <= self.lanes

    @property
    def banks(self) -> int:
        """Tasks whose sums are held at once."""
        if self.single:
            return 2
        chunks = 1 << (-(-self.max_out // self.lanes) - 1).bit_length()
        return {1: 4, 2: 4, 4: 4}.get(chunks, 2)


def cycles(tasks: Sequence[Task], layer: Layer, sizes: Sizes) -> int:
    """Return the cycles from the first beat at the input to the last result beat, without stalls on either side.

    Parameters
    ----------
    tasks
        At least one.
    layer
        Layer of all tasks.
    sizes
        Of the PE.
    """
    registers = sizes.queue <= FEW_BEATS
    now, read = ISSUE_LATENCY + (sizes.queue if registers else 1), 0
    # Registers hand out a beat every second cycle.
    began = now - 2
    elements, ways = len(tasks[0].beats[0].data), sizes.ways
    few = elements // ways >= LONG_BEAT
    packs = PACK_LATENCY - (not sizes.aggregates)
    # Of beats: when a place is free again.
    left: list[int] = []
    released: list[int] = []
    for number, task in enumerate(tasks):
        free = released[number - sizes.banks] + 1 if number >= sizes.banks else 0
        started = False
        for count, works in operations(task, layer, sizes.lanes):
            began = now = max(now, began + 1 + registers)
            if works and not started and not sizes.single:
                started, now = True, max(now, free)
            now += count
        if sizes.single:
            now = max(now, free + 1)
        read = max(read, now - 1 + SUM_LATENCY + MOVE * sizes.single)
        for _ in range(len(DIGIT_BITS) if layer.digits else 1):
            for first in range(0, layer.f_out, elements):
                groups = -(-min(elements, layer.f_out - first) // ways)
                # One beat is packed, and the others wait.
                places = 1 + (FEW_BEATS if few else MANY_BEATS)
                if len(left) >= places:
                    read = max(read, left[-places] + 1)
                read += groups
                leaves = read - 1 + packs + (CHAIN_LATENCY if few else QUEUE_LATENCY)
                left.append(max(leaves, left[-1] + 1 + few) if left else leaves)
        released.append(max(read - groups, read - 1 - AHEAD) if sizes.single else read - 1)
    return left[-1]


def _padded(length: int) -> int:
    return -(-length // GRANULE) * GRANULE


def _beats_of_row(length: int, elements: int) -> int:
    return -(-length // elements)
