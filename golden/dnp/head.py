"""A dense classifier head that learns on a neural chip from rows that stream through it (D3, D5, D7, D9).

The head is one layer of logistic neurons (eq. 1, 2 and 4) on all four processors of a chip: each keeps a share of the
classes in WM, so that weights stay where they are from one NEURAL command to the next. Row by row the processor that
gets it hands it on to the others, each computes (and, learning, updates) its classes, and the outputs go back to the
processor whose row it is. The result is that of one processor that does all of it:

    owner -> its neighbour in the row -> that one's neighbour below or above -> its neighbour in the row

carries a row at one word a clock; outputs come back by the two neighbours of the owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from contracts.dnp.config import HIGHEST, LOWEST, WORD, ProcessorConfig
from contracts.dnp.gbus import Space, write
from contracts.dnp.topology import CHIP, OUTER
from golden.dnp.arithmetic import Ints
from golden.dnp.array import ArrayModel
from golden.dnp.assembler import Image, assemble
from golden.dnp.chip_rows import collect, feed, packed, programs
from golden.dnp.network import ERROR_SHIFT, Learning, Network, NetworkModel, sigmoid_table
from golden.dnp.placement import Placement, blocks

__all__ = ["ROWS", "Head", "Task"]

#: Most rows of a program: what a loop counter holds. More are so many commands more, since WM keeps the weights.
ROWS = (1 << WORD) - 1
_BYTE = 255
#: Processors beside, diagonal to and below or above one, as differences of their numbers.
_BESIDE, _DIAGONAL, _BEYOND = 1, 3, 2


class Task(Enum):
    """What a program does with its rows.

    Attributes
    ----------
    LEARN
        Row in: features, then a target for each class. Row out: the classes' outputs before the step.
    READ
        Rows in: one for each processor, of one word that is nothing. Row r out: weights and bias of each class of
        processor r, as far as it has classes.
    SCORE
        Row in: features. Row out: the classes' outputs.
    """

    LEARN = "learning"
    READ = "reading"
    SCORE = "scoring"


@dataclass(frozen=True, eq=False)
class Head:
    """Programs and data of a head.

    Attributes
    ----------
    network
        Initial weights, one layer: int [classes, features] and int [classes], Q3.12. Nothing changes them.
    learning
        Constants of eq. 4.
    config
        Sizes of a processor. WM holds table and weights, XM a row with its targets and outputs.

    Raises
    ------
    ValueError
        If the network has more than a layer, WM or XM is too small, a weight does not fit 16 bits, or the momentum is
        so near to 1 that Q0.15 has no word for it.
    """

    network: Network
    learning: Learning = field(default_factory=Learning)
    config: ProcessorConfig = field(default_factory=ProcessorConfig)

    def __post_init__(self) -> None:
        if len(self.network.weights) != 1:
            raise ValueError(f"network must have one layer of weights, not {len(self.network.weights)}")
        for name, words in (("weights", self.network.weights[0]), ("biases", self.network.biases[0])):
            if words.min() < LOWEST or words.max() > HIGHEST:
                raise ValueError(f"{name} must be in {LOWEST}..{HIGHEST}, not {words.min()}..{words.max()}")
        if (self.learning.momentum_factor or 0) > HIGHEST:
            raise ValueError(f"momentum must be 1 or at most {HIGHEST / (HIGHEST + 1)}, not {self.learning.momentum}")
        for name, need in (
            ("wm_depth", self.config.table_size + self.most * (self.features + 1)),
            ("xm_depth", self._xm),
        ):
            if need > getattr(self.config, name):
                raise ValueError(
                    f"{self.features} features and {self.classes} classes need {name} of at least {need}, "
                    f"not {getattr(self.config, name)}"
                )

    @property
    def features(self) -> int:
        """Words of a row that are features, Q0.15."""
        return self.network.sizes[0]

    @property
    def classes(self) -> int:
        """Outputs, Q0.15."""
        return self.network.sizes[-1]

    @property
    def most(self) -> int:
        """Classes of the processor that has most, which is the first."""
        return len(self.own(0))

    @property
    def _xm(self) -> int:
        """Words of XM: features, targets, own outputs."""
        return self.features + self.classes + self.most

    def own(self, processor: int) -> list[int]:
        """Classes of a processor, one behind the other."""
        return blocks(self.classes, CHIP.processors)[processor]

    def widths(self, task: Task) -> tuple[int, int]:
        """Words of a row in, and of a row out."""
        return {
            Task.LEARN: (self.features + self.classes, self.classes),
            Task.SCORE: (self.features, self.classes),
            Task.READ: (1, self.most * (self.features + 1)),
        }[task]

    def model(self) -> NetworkModel:
        """Make a new model of the same head, without clocks: the same bits, with weights of its own."""
        weights, biases = self.network.weights[0].astype(np.int64), self.network.biases[0].astype(np.int64)
        placement = Placement(self.network.sizes, 1, 1, ring=False)
        return NetworkModel(Network([weights], [biases]), placement, self.config.table_bits)

    def memory(self, processor: int) -> dict[int, int]:
        """Words of WM by address: the table, then each own class's weights and bias."""
        return dict(enumerate([*self._table.tolist(), *self._weights(processor)]))

    def _weights(self, processor: int) -> list[int]:
        """Words of WM behind the table: each own class's weights and bias."""
        own = self.own(processor)
        words: list[int] = np.column_stack([self.network.weights[0][own], self.network.biases[0][own]]).ravel().tolist()
        return words

    @cached_property
    def _table(self) -> Ints:
        return sigmoid_table(self.config.table_bits)

    def text(self, processor: int, task: Task, rows: int) -> str:
        """Program of a processor for a number of rows of the whole chip.

        Raises
        ------
        ValueError
            If `rows` is not in 0..65,535; of READ, if it is not 4.
        """
        if task is Task.READ:
            if rows != CHIP.processors:
                raise ValueError(f"rows must be {CHIP.processors} to read, not {rows!r}")
            arrive, leave = OUTER[processor]
            return "\n".join([
                f"INA {arrive}",
                f"LDI #{self.config.table_size} WA0",
                "SET #1 ICR",
                f"LDI #{self.widths(task)[1]} RC",
                f"REP OUT WM[0]+ {leave}",
                "HALT",
            ])  # fmt: skip
        if not 0 <= rows <= ROWS:
            raise ValueError(f"rows must be in 0..{ROWS}, not {rows!r}")
        return "\n".join(self._lines(processor, task, rows) if rows else ["HALT"])

    def _lines(self, processor: int, task: Task, rows: int) -> Iterable[str]:
        """Yield a program that takes rows of the four processors in turn.

        RF5, RF6 and RF7 keep where weights, own targets and own outputs begin. XA0 always points at the features, for
        every repetition goes back to where it began; XR0 has passed the row when outputs follow it. A is 0 between
        classes and between rows.
        """
        own = self.own(processor)
        width = self.widths(task)[0]
        yield from ["SET #1 ICR", f"LDI #{rows} LC1", f"LDI #{self.config.table_size} RF5", f"LDI #{width} RF7"]
        if task is Task.LEARN:
            yield f"LDI #{self.learning.factor(output=True)} RF2"
            if own:
                yield f"LDI #{self.features + own[0]} RF6"
            if self.learning.momentum_factor is not None:
                yield f"LDI #{self.learning.momentum_factor} RF4"
        for owner in range(CHIP.processors):
            yield f"row{owner}:"
            yield "MOV A XR0"
            yield from _repeat(width, self._hand_on(processor, owner))
            if own:
                yield from [_set("RC", self.features), _set("LC0", len(own)), "MOV RF5 WA0"]
                if task is Task.LEARN:
                    yield from ["MOV RF6 XA1", "MOV RF5 WA1", "MOV RF5 WR1"]
                    if self.learning.momentum_factor is not None:
                        yield from ["MOV RF5 WA2", "MOV RF5 WR2"]
                yield f"class{owner}:"
                yield from self._learn() if task is Task.LEARN else self._score()
                yield f"LOOP LC0 class{owner}"
                yield "MOV RF7 XA2"
            yield from self._give_back(processor, owner)
            yield from [f"LOOP LC1 row{owner + 1}", "HALT"]
        yield from [f"row{CHIP.processors}:", "JMP row0"]

    def _hand_on(self, processor: int, owner: int) -> str:
        """Take a word of the owner's row, and pass it on unless this is the last that gets it."""
        beside, beyond = _inner(processor)
        return {
            0: f"PASS {OUTER[processor][0]} XM[0]+ {beside}",
            _BESIDE: f"PASS {beside} XM[0]+ {beyond}",
            _DIAGONAL: f"PASS {beyond} XM[0]+ {beside}",
            _BEYOND: f"INX {beside} XM[0]+",
        }[processor ^ owner]

    def _give_back(self, processor: int, owner: int) -> Iterable[str]:
        """Hand outputs back in the order of classes: those of the diagonal one by the one beyond the owner."""
        beside, beyond = _inner(processor)
        relation = processor ^ owner
        # Which processors' outputs pass here, where they go, and where those of others come from.
        passing, to = {
            0: (range(CHIP.processors), OUTER[processor][1]),
            _BESIDE: ([processor], beside),
            _DIAGONAL: ([processor], beside),
            _BEYOND: (sorted((processor, processor ^ _BESIDE)), beyond),
        }[relation]
        for source in passing:
            came = beside if source == processor ^ _BESIDE else beyond
            yield from _repeat(len(self.own(source)), f"OUT XM[2]+ {to}" if source == processor else f"FWD {came} {to}")

    def _score(self) -> Iterable[str]:
        """Output of a class (eq. 1); A is 0 before and after."""
        return [*_SUM, "ADD WM[0]+ A", "MOV A WA3", "XOR A A", "MOV WM[3] XM[0]+"]

    def _learn(self) -> Iterable[str]:
        """Output of a class, its error times 2² (eq. 2), its step, its weights and bias after it (eq. 4)."""
        decay = self.learning.momentum_factor is not None
        return [
            *_SUM,
            "ADD WM[0]+ A",
            "MOV A WA3",
            "MOV WM[3] RF0",
            "MOV RF0 A",
            "NOT A",
            "MUL RF0 A",
            "MOV A RF1",
            "MOV XM[1]+ A",
            "SUB RF0 A",
            "MUL RF1 A",
            f"SHL #{ERROR_SHIFT} A",
            "MULR RF2 A",
            "MOV A RF3",
            "MOV RF0 XM[0]+",
            *(["REP SCL RF4 WM[2]+"] if decay else []),
            "REP UPD RF3 XM[0]~ WM[1]+",
            "ADD WM[1]+ A",
            "MOV A WM[1]+",
            # The pointers that scale pass the bias, which is not scaled.
            *(["MOV WM[2]+ RF1", "MOV A WM[2]+"] if decay else []),
            "XOR A A",
        ]

    def image(self, processor: int, task: Task, rows: int) -> Image:
        """Assemble the program of a processor for a number of rows of the whole chip.

        Raises
        ------
        AssemblyError
            If the program memory is too small.
        """
        return assemble(self.text(processor, task, rows), config=self.config)

    def words(self, task: Task, rows: int, *, load: bool) -> Ints:
        """Frames for so many rows: uint32, two words of the G-bus in each, lower half first.

        Parameters
        ----------
        task, rows
            As for :meth:`text`.
        load
            With table and initial weights; otherwise those stay that the command before left in WM.

        Raises
        ------
        AssemblyError
            If the program memory is too small.
        """
        frames: list[int] = []
        if load:
            frames += write(None, Space.WM, 0, self._table.tolist())
            for processor in range(CHIP.processors):
                weights = self._weights(processor)
                frames += write((0, processor), Space.WM, self.config.table_size, weights) if weights else []
        return packed(frames + programs([self.image(n, task, rows).program for n in range(CHIP.processors)]))

    def machine(self) -> ArrayModel:
        """Golden chip with table and initial weights, without a program."""
        machine = ArrayModel(self.config, CHIP)
        for processor in range(CHIP.processors):
            machine.load(processor, wm=self.memory(processor))
        return machine

    def run(self, machine: ArrayModel, task: Task, rows: Ints) -> Ints:
        """Carry a task out on a golden chip, int [rows, width]; its WM keeps what it learns.

        Returns
        -------
        ndarray
            int64 [rows, width], see `Task`.
        """
        for processor in range(CHIP.processors):
            machine.load(processor, self.image(processor, task, len(rows)).program)
        feed(machine, rows)
        machine.start()
        machine.run()
        machine.step()
        return collect(machine.edges, len(rows), self.widths(task)[1])

    def read(self, rows: Ints) -> Network:
        """Weights and biases in the rows that READ gives, int [4, width]."""
        made = Network([np.zeros_like(self.network.weights[0])], [np.zeros_like(self.network.biases[0])])
        for processor in range(CHIP.processors):
            own = self.own(processor)
            words = rows[processor].reshape(self.most, self.features + 1)[: len(own)]
            made.weights[0][own], made.biases[0][own] = words[:, :-1], words[:, -1]
        return made


#: Products of a class's weights and the features.
_SUM = ["REP MADD WM[0]+ XM[0]~ A"]


def _inner(processor: int) -> tuple[str, str]:
    """Ports to the neighbour in the row, and to the one below or above."""
    row, column = divmod(processor, CHIP.columns)
    return "W" if column else "E", "N" if row else "S"


def _set(register: str, value: int) -> str:
    return f"SET #{value} {register}" if value <= _BYTE else f"LDI #{value} {register}"


def _repeat(count: int, instruction: str) -> list[str]:
    """Carry an instruction out `count` times."""
    return [_set("RC", count), f"REP {instruction}"] if count > 1 else [instruction] * count
