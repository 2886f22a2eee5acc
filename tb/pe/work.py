"""Random and directed work for PEs: layers, tasks, and how both reach a PE's ports."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.image_format import row_bytes
from golden.pe.pe import Beat, Layer, Mode, RowBeat, Task, row_beats
from hw.pe.formats import PEConfig
from sim.harness.bench import Bench
from sim.harness.codec import Codec

#: What a PE is written before every layer.
WEIGHT, BIAS = "weight_write", "bias_write"


class Maker:
    """Makes layers and tasks for one configuration.

    Parameters
    ----------
    config
        Of the PE.
    rng
        Source of random choices.
    """

    def __init__(self, config: PEConfig, rng: random.Random) -> None:
        self.config = config
        self.rng = rng
        self.np = np.random.default_rng(rng.getrandbits(64))
        self.elements = config.elements

    def values(self, *shape: int) -> npt.NDArray[np.int16]:
        """Return int16 of all magnitudes, extremes among them."""
        drawn = self.np.integers(-(1 << 15), 1 << 15, shape) >> self.np.integers(0, 16, shape)
        extreme = self.np.choice([-(1 << 15), (1 << 15) - 1], shape)
        return np.where(self.np.random(shape) < 0.05, extreme, drawn).astype(np.int16)

    def layer(
        self,
        mode: Mode,
        f_out: int,
        f_in: int | None = None,
        *,
        relu: bool = False,
        bias: bool = False,
        digits: bool = False,
    ) -> Layer:
        """Return a layer whose results spread over the range and past it."""
        chunks = 1 << (-(-f_out // self.config.lanes) - 1).bit_length()
        f_in = f_in or self.rng.randrange(1, self.config.weight_rows // chunks + 1)
        bias, relu = bias and self.config.aggregates, relu and self.config.aggregates
        scale = 30 if bias else 0
        biases = self.np.integers(-(1 << scale), (1 << scale) + 1, f_out).astype(np.int32)
        shift = self.rng.randrange(12, 20) if mode == Mode.GATHER else self.rng.randrange(18, 36)
        return Layer(mode, self.values(f_in, f_out), biases if bias else 0 * biases, shift, relu, digits)

    def task(self, beats: Sequence[Beat]) -> Task:
        """Return a task of `beats` with a random address and factor."""
        address = self.rng.getrandbits(self.config.beat_address_width)
        address = min(address, (1 << self.config.beat_address_width) - 64)
        if not self.config.aggregates:
            # A tag, of which the lowest field counts the beats.
            address = address >> self.config.counted_bits << self.config.counted_bits
        return Task(beats, address, self.rng.randrange(0x8000, 0x10000), self.rng.choice((0, 0, 1, 2, 5, 31)))

    def sparse(self, layer: Layer, entries: int, *, wrong: float = 0.0, gap: float = 0.1) -> Task:
        """Return a task of `entries` sparse features, the share `wrong` of them out of range, with gaps."""
        beats = []
        while True:
            data, mask = self.values(self.elements), np.zeros(self.elements, np.bool_)
            for place in range(0, self.elements, 2):
                out = self.rng.random() < wrong
                index = self.rng.randrange(layer.f_in, 1 << 16) if out else self.rng.randrange(layer.f_in)
                data[place] = np.uint16(index).astype(np.int16)
                mask[place] = entries > 0 and self.rng.random() >= gap
                entries -= int(mask[place])
            # The bit of a value means nothing.
            mask[1::2] = self.np.random(self.elements // 2) < 0.5
            beats.append(Beat(data, mask))
            if entries <= 0:
                return self.task(beats)

    def dense(self, layer: Layer, *, zeros: float = 0.5, padding: int = 0) -> Task:
        """Return a task of a dense row with a share of `zeros` and with garbage in its `padding` beats' places."""
        count = -(-layer.f_in // self.elements) + padding
        data = self.values(count, self.elements)
        data[self.np.random(data.shape) < zeros] = 0
        # What lies past the row in its last line may be masked out or not.
        mask = np.arange(data.size).reshape(data.shape) < layer.f_in
        mask |= self.np.random(data.shape) < 0.5
        if self.rng.random() < 0.2:
            mask &= self.np.random(data.shape) < 0.5
        return self.task([Beat(data[n], mask[n]) for n in range(count)])

    def gather(self, layer: Layer, factors: Sequence[int]) -> Task:
        """Return a task of combined rows, one for each of `factors`; each counts once in a PE that combines only."""
        factors = factors if self.config.aggregates else [1] * len(factors)
        count = -(-layer.f_out // self.elements)
        mask = self.np.random(self.elements) < 0.5
        beats = [Beat(self.values(self.elements), mask, factor) for factor in factors for _ in range(count)]
        return self.task(beats)

    def digits(self, layer: Layer, blocks: int) -> Task:
        """Return a task of rows of digits, three for each of `blocks`, padded with garbage."""
        count = 3 * blocks * row_bytes(layer.f_out) * 8 // self.config.data_width
        return self.task([Beat(self.values(self.elements), self.np.random(self.elements) < 0.5) for _ in range(count)])

    def tasks(self, layer: Layer, count: int, longest: int, *, wrong: float = 0.0) -> list[Task]:
        """Return `count` random tasks of up to `longest` elements or rows."""
        made = []
        for _ in range(count):
            size = self.rng.choice((0, 1, 2, self.rng.randrange(longest + 1)))
            if layer.mode == Mode.SPARSE:
                made.append(self.sparse(layer, size, wrong=wrong))
            elif layer.mode == Mode.DENSE:
                made.append(self.dense(layer, zeros=self.rng.choice((0.0, 0.5, 1.0)), padding=self.rng.randrange(3)))
            elif layer.mode == Mode.DIGITS:
                made.append(self.digits(layer, size + 1))
            else:
                made.append(self.gather(layer, self.rng.choices(FACTORS, k=size + 1)))
        return made


#: Factors of combined rows: of the vertex itself, GIN's 256 (1 + eps); of a neighbour; of the upper halves of sums.
SELF, NEIGHBOUR = -7 * 256 - 3, 256
HIGH = NEIGHBOUR << 16
FACTORS = (SELF, NEIGHBOUR, NEIGHBOUR, HIGH, 0, 1, -1, (1 << 15) - 1, -(1 << 15), -12_345)


class Ports:
    """Brings work to the ports of a PE or of a group of them, and says what must come back.

    Parameters
    ----------
    bench
        Its streams.
    config
        Of the PE.
    """

    def __init__(self, bench: Bench, config: PEConfig) -> None:
        self.bench = bench
        self.config = config
        self.settings = Codec(config.settings)
        self.random = np.random.default_rng(bench.random.getrandbits(64))
        self.attends = False  # factors come with the last beats

    async def load(self, layer: Layer) -> None:
        """Write settings, weights and biases of `layer`; what it does not use is random."""
        rng, config = self.bench.random, self.config
        chunks = -(-layer.f_out // config.lanes)
        shift = (chunks - 1).bit_length()
        whole = layer.mode in (Mode.GATHER, Mode.DIGITS)
        if layer.mode == Mode.DIGITS:
            chunks = row_bytes(layer.f_out) // 2 // config.lanes
        values = {
            "mode": int(layer.mode),
            "f_in": rng.getrandbits(17) if whole else layer.f_in,
            "f_out": layer.f_out,
            "last_chunk": chunks - 1,
            "chunk_shift": rng.randrange(config.max_chunks.bit_length()) if whole else shift,
            "shift": layer.shift,
            "relu": int(layer.relu),
            "bias": int(layer.biases.any()),
            "digits": int(layer.digits),
            "attends": rng.getrandbits(1),
        }
        self.attends = bool(values["attends"]) and config.aggregates
        fields = config.settings.members
        self.bench.dut.settings.value = self.settings.pack({name: values[name] for name in fields})
        self.bench.drive(WEIGHT, [] if whole else self._weights(layer, shift))
        biases = [int(bias) for bias in layer.biases] if layer.biases.any() else []
        biases += [rng.getrandbits(31) for _ in range(config.max_out - len(biases))]
        if config.aggregates:
            self.bench.drive(BIAS, [{"address": n, "data": bias} for n, bias in enumerate(biases)])
        await self.bench.drain(20_000, quiet=1)

    def _weights(self, layer: Layer, shift: int) -> list[dict[str, Any]]:
        """Return the writes of all weights; a row has random ones where it has no other.

        Where a row of results takes at most half of the lanes, an even feature and the odd one behind it share a row.
        """
        lanes = self.config.lanes
        paired = layer.f_out <= lanes // 2
        width, chunks = (lanes // 2, 1) if paired else (lanes, -(-layer.f_out // lanes))
        rows = self.random.integers(-(1 << 15), 1 << 15, (layer.f_in + layer.f_in % 2, chunks * width), dtype=np.int16)
        rows[: layer.f_in, : layer.f_out] = layer.weights
        chosen = rows.reshape(-1, 1, lanes) if paired else rows[: layer.f_in].reshape(-1, chunks, lanes)
        return [
            {"address": index << shift | chunk, "data": int.from_bytes(row.astype("<i2").tobytes(), "little")}
            for index, chunks_of_row in enumerate(chosen)
            for chunk, row in enumerate(chunks_of_row)
        ]

    def beats(self, task: Task, layer: Layer) -> list[dict[str, Any]]:
        """Return the payloads of a task; fields that do not count in a beat are random."""
        rng = self.bench.random
        payloads = []
        for number, beat in enumerate(task.beats):
            first, last = number == 0, number == len(task.beats) - 1
            gather = layer.mode == Mode.GATHER
            scale = task.exponent << 16 | task.mantissa
            high = gather and not -(1 << 15) <= beat.factor < 1 << 15
            scalar = beat.factor >> 16 * high if gather else rng.randrange(-(1 << 15), 1 << 15)
            mask = int.from_bytes(np.packbits(beat.mask, bitorder="little").tobytes(), "little")
            factor = {"scalar": scalar, "high": int(high) if gather else rng.getrandbits(1)}
            payloads.append(
                {
                    "data": int.from_bytes(beat.data.astype("<i2").tobytes(), "little"),
                    "mask": mask,
                    **(factor if self.config.aggregates else {}),
                    "first": int(first),
                    "last": int(last),
                    "address": task.address if first else rng.getrandbits(self.config.beat_address_width),
                    "scale": rng.getrandbits(11) << 21
                    | (scale if (last if self.attends else first) else rng.getrandbits(21)),
                }
            )
        return payloads

    def drive(self, tasks: Sequence[Task], layer: Layer) -> None:
        """Queue the beats of `tasks`."""
        self.bench.drive("i", [payload for task in tasks for payload in self.beats(task, layer)])

    def expect(self, tasks: Sequence[Task], layer: Layer) -> None:
        """Expect the rows of `tasks` in their order."""
        rows = [beat for task in tasks for beat in row_beats(task, layer)]
        self.bench.expect("o", [unpacked(beat) for beat in rows])

    def wrong_indices(self, tasks: Sequence[Task], layer: Layer) -> list[int]:
        """Return the indices of sparse features that are out of range, in their order."""
        return [
            int(beat.data[place]) & 0xFFFF
            for task in tasks
            for beat in task.beats
            for place in range(0, len(beat.data), 2)
            if layer.mode == Mode.SPARSE and beat.mask[place] and int(beat.data[place]) & 0xFFFF >= layer.f_in
        ]


def unpacked(beat: RowBeat) -> dict[str, Any]:
    """Return a golden beat as the bench unpacks one."""
    return {"address": beat.address, "data": list(beat.data), "last": int(beat.last)}


def at(task: Task, address: int) -> Task:
    """Return the same task with its row elsewhere."""
    return replace(task, address=address)
