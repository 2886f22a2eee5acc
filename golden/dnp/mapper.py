"""The mapper: a layered network onto an array, as every processor's program and data (D9, D11, D13)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import EAST, NORTH, SOUTH, WEST, Grid, Topology
from golden.dnp.arithmetic import Ints
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import assemble
from golden.dnp.layout import DoesNotFitError, Layout
from golden.dnp.network import ERROR_SHIFT, Learning, Network, sigmoid_table
from golden.dnp.placement import Placement

__all__ = ["Mapping", "ProgramText", "map_network"]

#: Sums looked up together, so that no instruction waits for the one before; one general register each.
_BATCH = 6
_BYTE = 255


class ProgramText:
    """Text of one processor's program, phase by phase; remembers what RC and ICR hold.

    Parameters
    ----------
    placement, layout
        What the processor holds, and where.
    row, column
        Its place in the logical array.
    """

    def __init__(self, placement: Placement, layout: Layout, row: int, column: int) -> None:
        self.placement, self.layout, self.row, self.column = placement, layout, row, column
        self.lines: list[str] = []
        self.known: dict[str, int] = {}

    def held(self, layer: int) -> int:
        """Count the neurons of a layer that it holds."""
        return len(self.placement.held(layer, self.row, self.column))

    def owned(self, layer: int) -> int:
        """Count the sums of a layer that it finishes."""
        return len(self.placement.owned(layer, self.row, self.column))

    def emit(self, *lines: str) -> None:
        """Append lines."""
        self.lines += lines

    def set(self, register: str, value: int) -> None:
        """Load RC or ICR, unless it holds the value."""
        if self.known.get(register) != value:
            self.emit(f"SET #{value} {register}" if value <= _BYTE else f"LDI #{value} {register}")
            self.known[register] = value

    def point(self, **pointers: int) -> None:
        """Load address registers, named in small letters."""
        for register, address in pointers.items():
            self.emit(f"LDI #{address} {register.upper()}")

    def repeat(self, count: int, instruction: str) -> None:
        """Emit an instruction that is carried out `count` times."""
        if count == 1:
            self.emit(instruction)
        elif count > 1:
            self.set("RC", count)
            self.emit(f"REP {instruction}")

    def runs(self, instructions: Sequence[str]) -> None:
        """Emit a sequence, equal neighbours as a repetition."""
        for instruction, group in groupby(instructions):
            self.repeat(len(list(group)), instruction)

    # Communication along the axis of a layer.

    def ports(self, layer: int) -> tuple[str, str]:
        """Port that sums leave by, and the one they come from."""
        return ("E", "W") if layer % 2 else ("S", "N")

    def reduce(self, layer: int, size: int) -> None:
        """Finish the owned sums of a block whose partial sums lie at ``sums``, owned ones first."""
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        if axis.length == 1:
            return
        ahead, behind = self.ports(layer)
        chunks = axis.chunks(size)
        sequence = []
        for item in range(max(map(len, chunks))):
            for distance in range(1, axis.length):
                if item < len(chunks[(position - distance) % axis.length]):
                    sequence.append(f"OUT XM[0]+ {ahead}" if distance == 1 else f"OUTS {behind} XM[0]+ {ahead}")
            if item < len(chunks[position]):
                sequence.append(f"INSX {behind} XM[1]+ XM[1]+")
        self.point(xa0=self.layout.sums + len(chunks[position]))
        if chunks[position]:
            self.point(xa1=self.layout.sums, xr1=self.layout.sums)
        self.runs(sequence)

    def gather(self, layer: int, base: int) -> None:
        """Spread the owned words at `base` along the axis; the others follow them, from where XR2 points."""
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        if axis.length == 1:
            return
        ahead, behind = self.ports(layer) if axis.ring else reversed(self.ports(layer))
        chunks = axis.chunks(self.held(layer))
        first = 0 if axis.ring else axis.length - 1
        farthest = (position + 1) % axis.length if axis.ring else first
        sequence = []
        for item in range(max(map(len, chunks))):
            if item < len(chunks[position]):
                sequence.append(f"OUT XM[2]+ {ahead}")
            for distance in range(1, axis.length):
                source = (position - distance) % axis.length
                if item < len(chunks[source]):
                    last = source == farthest if axis.ring else position == 0
                    sequence.append(f"INX {behind} XM[2]+" if last else f"PASS {behind} XM[2]+ {ahead}")
        if chunks[position]:
            self.point(xa2=base)
        self.runs(sequence)

    # Phases of a pass.

    def forward(self, layer: int) -> None:
        """Weighted sums, their reduction, bias and table (eq. 1)."""
        at, rows = self.layout, self.held(layer)
        self.set("ICR", 1)
        self.point(wa0=at.weights[layer], xa0=at.values[layer - 1], xr0=at.sums)
        self.set("RC", self.held(layer - 1))
        self.emit(*["REP MADD WM[0]+ XM[0]~ A", "MOV A! XM[0]+"] * rows)
        self.reduce(layer, rows)
        own = self.owned(layer)
        if own:
            self.point(xa1=at.sums, wa2=at.biases[layer], xr2=at.values[layer])
        else:
            self.point(xr2=at.values[layer])
        for start in range(0, own, _BATCH):
            batch = range(min(_BATCH, own - start))
            for register in batch:
                self.emit("MOV XM[1]+ A", "ADD WM[2]+ A", f"MOV A RF{register}")
            for register in batch:
                self.emit(f"MOV RF{register} WA3", "MOV WM[3] XM[2]+")
        self.emit("XOR A A")

    def forward_in_rounds(self, layer: int, *, onward: bool) -> None:
        """Carry out eq. 1 on a ring: sums pass as they are made, then finished values go round as they are looked up.

        WA0, XA0 and XR2 run on from where the layer before left them; A is 0 before and after.
        """
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        ahead, behind = self.ports(layer)
        inputs, chunks = self.held(layer - 1), axis.chunks(self.held(layer))
        share = len(chunks[position])
        # Finished sums wait in registers, or, where they are too many, in XM.
        stored = onward and axis.length > 1 and share > _BATCH
        if stored:
            self.point(xr1=self.layout.sums, xa1=self.layout.sums)
        order = [
            distance
            for item in range(max(map(len, chunks)))
            for distance in range(1, axis.length + 1)
            if item < len(chunks[(position - distance) % axis.length])
        ]
        finished = 0
        for number, distance in enumerate(order, 1):
            # The last row leaves the pointer at the next layer's inputs.
            self.repeat(inputs, f"MADD WM[0]+ XM[0]{'+' if number == len(order) else '~'} A")
            if distance < axis.length:
                self.emit(f"OUT A! {ahead}" if distance == 1 else f"OUTS {behind} A! {ahead}")
                continue
            if axis.length > 1:
                self.emit(f"INS {behind}")
            self.emit("ADD WM[0]+ A", "MOV A! XM[1]+" if stored else f"MOV A! RF{finished % _BATCH}")
            finished += 1
            if axis.length == 1 or not onward:
                self._look_up(finished - _BATCH)
        if not inputs or not order:
            self.point(xa0=self.layout.values[layer])
        if axis.length == 1 or not onward:
            for item in range(max(0, finished - _BATCH + 1), finished):
                self._look_up(item)
            return
        self._send_round(axis.length, position, chunks, ports=(ahead, behind), stored=stored)

    def _look_up(self, item: int) -> None:
        if item >= 0:
            self.emit(f"MOV RF{item % _BATCH} WA3", "MOV WM[3] XM[2]+")

    def _send_round(
        self, length: int, position: int, chunks: list[list[int]], *, ports: tuple[str, str], stored: bool
    ) -> None:
        """Look up finished sums and spread them along a ring, in rounds: the others' values first, then the own one."""
        ahead, behind = ports
        share = len(chunks[position])
        for item in range(max(map(len, chunks))):
            others = [d for d in range(1, length) if item < len(chunks[(position - d) % length])]
            passed = sum(distance < length - 1 for distance in others)
            if passed > 1:
                self.set("RC", passed)
            if item < share:
                if stored and item % _BATCH == 0:
                    self.emit(*(f"MOV XM[1]+ RF{i}" for i in range(min(_BATCH, share - item))))
                self.emit(f"MOV RF{item % _BATCH} WA3", f"OUT WM[3] {ahead}")
            self.repeat(passed, f"PASS {behind} XM[2]+ {ahead}")
            if passed < len(others):
                self.emit(f"INX {behind} XM[2]+")
            if item < share:
                self.emit("MOV WM[3] XM[2]+")

    def output_errors(self, layer: int) -> None:
        """Carry out eq. 2 for the owned outputs, as in Fig. 4, times 2² (D8)."""
        at = self.layout
        if self.owned(layer):
            self.point(xa1=at.values[layer], xa2=at.targets, xr2=at.errors[layer])
            self.emit(
                *[
                    "MOV XM[1]+ RF0",
                    "MOV RF0 A",
                    "NOT A",
                    "MUL RF0 A",
                    "MOV A RF1",
                    "MOV XM[2]+ A",
                    "SUB RF0 A",
                    "MUL RF1 A",
                    f"SHL #{ERROR_SHIFT} A",
                    "MOV A! XM[2]+",
                ]
                * self.owned(layer)
            )
        else:
            self.point(xr2=at.errors[layer])
        self.gather(layer, at.errors[layer])

    def hidden_errors(self, layer: int) -> None:
        """Carry out eq. 3: the errors of the layer above, back through its weights, column by column."""
        at, inputs = self.layout, self.held(layer)
        self.set("ICR", inputs)
        self.point(wa1=at.weights[layer + 1], xa0=at.errors[layer + 1], xr0=at.sums)
        self.set("RC", self.held(layer + 1))
        self.emit(*["REP MADD WM[1]~ XM[0]~ A", "MOV A! XM[0]+"] * inputs)
        self.reduce(layer, inputs)
        if self.owned(layer):
            self.point(xa1=at.values[layer], xa2=at.sums, xr2=at.errors[layer])
            self.emit(
                *[
                    "MOV XM[1]+ RF0",
                    "MOV XM[2]+ A",
                    "MUL RF0 A",
                    "MOV A RF1",
                    "MOV RF0 A",
                    "NOT A",
                    "MUL RF1 A",
                    "MOV A! XM[2]+",
                ]
                * self.owned(layer)
            )
        else:
            self.point(xr2=at.errors[layer])
        self.gather(layer, at.errors[layer])

    def update(self, layer: int, learning: Learning, *, output: bool) -> None:
        """Carry out eq. 4: each row of weights in one repetition, its factor made while the one before is under way."""
        at, rows, inputs = self.layout, self.held(layer), self.held(layer - 1)
        self.set("ICR", 1)
        self.emit(f"LDI #{learning.factor(output=output)} RF2")
        if learning.momentum_factor is not None and rows * inputs:
            self.point(wa0=at.weights[layer], wr0=at.weights[layer])
            self.emit(f"LDI #{learning.momentum_factor} RF4")
            self.repeat(rows * inputs, "SCL RF4 WM[0]+")
        self.point(wa0=at.weights[layer], wr0=at.weights[layer], xa0=at.values[layer - 1], xa1=at.errors[layer])
        self.set("RC", inputs)
        factors = [["MULR RF2 XM[1]+ A", f"MOV A RF{1 + 2 * (row % 2)}"] for row in range(rows)]
        self.emit(*(factors[0] if rows else []))
        for row in range(rows):
            self.emit(*(factors[row + 1] if row + 1 < rows else []))
            self.emit(f"REP UPD RF{1 + 2 * (row % 2)} XM[0]~ WM[0]+")
        own = self.owned(layer)
        if own:
            self.point(xa1=at.errors[layer], wa2=at.biases[layer], wr1=at.biases[layer])
            self.emit(*["MULR RF2 XM[1]+ A", "ADD WM[2]+ A", "MOV A WM[1]+"] * own)
        self.emit("XOR A A")

    # The host's words.

    def receive(self, base: int, own: int, *, port: str, onward: str | None, rest: int, shared: bool) -> None:
        """Take `own` words from a port: all that come (`shared`, passed on too), or the first, passing on `rest`."""
        self.point(xr2=base)
        if shared:
            self.repeat(own, f"PASS {port} XM[2]+ {onward}" if onward else f"INX {port} XM[2]+")
            return
        self.repeat(own, f"INX {port} XM[2]+")
        if onward:
            self.repeat(rest, f"FWD {port} {onward}")

    def send(self, base: int, own: int, *, port: str, behind: str, rest: int) -> None:
        """Send the owned words to the host, then pass on those of the processors behind."""
        if own:
            self.point(xa2=base)
        self.repeat(own, f"OUT XM[2]+ {port}")
        self.repeat(rest, f"FWD {behind} {port}")


@dataclass
class Mapping:
    """A network on an array.

    Attributes
    ----------
    grid
        Physical array, with the sides that belong to the host.
    placement
        Logical array and its blocks.
    config
        Memory sizes.
    layouts, texts
        Per processor.
    network
        The weights that were placed.
    learning
        Constants, ``None`` for forward passes only.
    """

    grid: Grid
    placement: Placement
    config: ProcessorConfig
    layouts: list[Layout]
    texts: list[str]
    network: Network
    learning: Learning | None

    @property
    def linear(self) -> bool:
        """Whether the array is one row, fed from its end."""
        return self.grid.topology is Topology.LINEAR

    def coordinates(self, processor: int) -> tuple[int, int]:
        """Logical row and column of a physical processor."""
        return divmod(processor, self.placement.columns)

    def machine(self, inputs: Ints | None = None) -> ArrayModel:
        """Golden machine loaded with everything; `inputs` go straight into XM."""
        machine = ArrayModel(self.config, self.grid)
        programs: dict[str, list[int]] = {}
        for processor, text in enumerate(self.texts):
            if text not in programs:
                programs[text] = assemble(text, f"processor {processor}", self.config).program
            machine.load(processor, programs[text], self.wm(processor))
            if inputs is not None:
                row, column = self.coordinates(processor)
                for offset, neuron in enumerate(self.placement.held(0, row, column)):
                    machine.state.xm[processor, self.layouts[processor].values[0] + offset] = inputs[neuron]
        machine.start()
        return machine

    def wm(self, processor: int) -> dict[int, int]:
        """Words of WM: table, weights, biases."""
        words = dict(enumerate(sigmoid_table(self.config.table_bits).tolist()))
        for layer in self.placement.layers:
            inputs = self.placement.held(layer - 1, *self.coordinates(processor))
            for neuron, start, bias in self._places(processor, layer):
                words |= dict(enumerate(self.network.weights[layer - 1][neuron, inputs].tolist(), start))
                if bias is not None:
                    words[bias] = int(self.network.biases[layer - 1][neuron])
        return words

    def _places(self, processor: int, layer: int) -> Iterator[tuple[int, int, int | None]]:
        """Yield each neuron of a layer that a processor holds, with the address of its weights, and of its own bias."""
        row, column = self.coordinates(processor)
        at, placement = self.layouts[processor], self.placement
        inputs, owned = len(placement.held(layer - 1, row, column)), placement.owned(layer, row, column)
        start = at.weights[layer]
        for neuron in placement.held(layer, row, column):
            mine, behind = neuron in owned, start + inputs
            if placement.rounds:
                yield neuron, start, behind if mine else None
                start = behind + mine
            else:
                yield neuron, start, at.biases[layer] + owned.index(neuron) if mine else None
                start = behind

    def read(self, wm: Sequence[Sequence[int]]) -> Network:
        """Network whose words stand in the processors' WM, signed, shape (processors, depth)."""
        made = Network([w.copy() for w in self.network.weights], [b.copy() for b in self.network.biases])
        for processor, words in enumerate(wm):
            for layer in self.placement.layers:
                inputs = self.placement.held(layer - 1, *self.coordinates(processor))
                for neuron, start, bias in self._places(processor, layer):
                    made.weights[layer - 1][neuron, inputs] = words[start : start + len(inputs)]
                    if bias is not None:
                        made.biases[layer - 1][neuron] = words[bias]
        return made

    def outputs(self, xm: Sequence[Sequence[int]]) -> list[int]:
        """Return the outputs of the network from the processors' XM, signed, shape (processors, depth)."""
        last = self.placement.layers[-1]
        values = [0] * self.placement.sizes[-1]
        for processor, words in enumerate(xm):
            row, column = self.coordinates(processor)
            for index, neuron in enumerate(self.placement.owned(last, row, column)):
                values[neuron] = int(words[self.layouts[processor].values[last] + index])
        return values

    def feeds(self, samples: Sequence[tuple[Ints, Ints | None]]) -> dict[tuple[int, int], EdgePort]:
        """Return what the host sends into the edges, sample after sample: inputs, and targets for learning."""
        ends: dict[tuple[int, int], EdgePort] = {}

        def port(side: int, place: int) -> list[int]:
            return ends.setdefault((side, place), EdgePort()).words

        for inputs, target in samples:
            self._feed(port, 0, inputs, shared=not self.linear)
            if target is not None:
                self._feed(port, self.placement.layers[-1], target, shared=False)
        return ends

    def _feed(self, port: object, layer: int, values: Ints, *, shared: bool) -> None:
        assert callable(port)
        placement = self.placement
        if self.linear:
            words = [
                int(values[n]) for column in reversed(range(placement.columns)) for n in self._mine(layer, 0, column)
            ]
            port(EAST, self.grid.rows - 1).extend(words)
        elif shared:
            for column in range(placement.columns):
                port(SOUTH, column).extend(int(values[n]) for n in placement.held(layer, 0, column))
        elif layer % 2:
            for row in range(placement.rows):
                for column in reversed(range(placement.columns)):
                    port(EAST, row).extend(int(values[n]) for n in placement.owned(layer, row, column))
        else:
            for column in range(placement.columns):
                for row in reversed(range(placement.rows)):
                    port(SOUTH, column).extend(int(values[n]) for n in placement.owned(layer, row, column))

    def _mine(self, layer: int, row: int, column: int) -> list[int]:
        return self.placement.held(0, row, column) if layer == 0 else self.placement.owned(layer, row, column)

    def results(self) -> list[tuple[int, int]]:
        """Edge ports by which outputs leave, and what comes there in order: :meth:`order_of_results`."""
        last = self.placement.layers[-1]
        if self.linear:
            return [(WEST, 0)]
        side = WEST if last % 2 else NORTH
        return [(side, place) for place in range(self.grid.places(side))]

    def order_of_results(self, place: int) -> list[int]:
        """Output neurons in the order in which their values leave by an edge port."""
        placement, last = self.placement, self.placement.layers[-1]
        if self.linear:
            return [n for column in range(placement.columns) for n in placement.owned(last, 0, column)]
        if last % 2:
            return [n for column in range(placement.columns) for n in placement.owned(last, place, column)]
        return [n for row in range(placement.rows) for n in placement.owned(last, row, place)]


def map_network(
    network: Network,
    grid: Grid,
    config: ProcessorConfig | None = None,
    *,
    learning: Learning | None = None,
    samples: int = 1,
    stream: bool = True,
) -> Mapping:
    """Place a network on an array and write every processor's program and data.

    Parameters
    ----------
    network
        The network; ``Network.from_classifier`` takes one from scikit-learn.
    grid
        The array. A LINEAR array is used as one row; PASF as a mesh whose south side belongs to the host.
    config
        Memory sizes.
    learning
        Learn from every sample; forward passes only if ``None``.
    samples
        Passes before the program halts, 1..65,535.
    stream
        Take inputs from the host and send outputs there; otherwise inputs are in XM and outputs stay there.

    Raises
    ------
    DoesNotFitError
        If a memory is too small.
    ValueError
        If `samples` is out of range, or more than one sample or learning is asked for without `stream`.
    """
    config = config or ProcessorConfig()
    if not 1 <= samples < 1 << 16:
        raise ValueError(f"samples must be in 1..65535, not {samples!r}")
    if not stream and (samples > 1 or learning):
        raise ValueError("stream must be True for learning and for more than one sample, not False")
    linear = grid.topology is Topology.LINEAR
    rows, columns = (1, grid.processors) if linear else (grid.rows, grid.columns)
    ring = grid.topology is Topology.TORUS
    placement = Placement(network.sizes, rows, columns, ring=ring, rounds=ring and learning is None)
    sides = frozenset({EAST, SOUTH}) if stream and not linear else frozenset()
    grid = Grid(grid.rows, grid.columns, grid.topology, grid.host | sides)
    layouts, texts = [], []
    for processor in range(grid.processors):
        row, column = divmod(processor, columns)
        layout = Layout.of(placement, row, column, config, learning=learning is not None)
        program = ProgramText(placement, layout, row, column)
        _write(program, linear=linear, learning=learning, samples=samples, stream=stream)
        words = sum(2 if line.split()[0] in ("LDI", "JMP") else 1 for line in program.lines if not line.endswith(":"))
        if words > config.p_depth:
            raise DoesNotFitError(
                f"layers {placement.sizes} on {rows} x {columns} processors need {words} words of program memory in "
                f"processor ({row}, {column}), which has {config.p_depth}"
            )
        layouts.append(layout)
        texts.append("\n".join(program.lines))
    return Mapping(grid, placement, config, layouts, texts, network, learning)


def _write(p: ProgramText, *, linear: bool, learning: Learning | None, samples: int, stream: bool) -> None:
    placement, row, column = p.placement, p.row, p.column
    last = placement.layers[-1]
    if samples > 1:
        p.emit(f"LDI #{samples} LC0", "next:")
    if stream:
        _take(p, 0, p.layout.values[0], shared=not linear, linear=linear)
    if placement.rounds:
        p.set("ICR", 1)
        p.point(wa0=p.layout.weights[1])
        # Inputs from the host have brought XR2 to where values follow; without them XA0 is where the start left it.
        if stream:
            p.point(xa0=p.layout.values[0])
        else:
            p.point(xr2=p.layout.values[1])
    for layer in placement.layers:
        if placement.rounds:
            p.forward_in_rounds(layer, onward=layer < last)
            continue
        p.forward(layer)
        if layer < last:
            p.gather(layer, p.layout.values[layer])
    if learning:
        _take(p, last, p.layout.targets, shared=False, linear=linear)
        p.output_errors(last)
        for layer in reversed(placement.layers[:-1]):
            p.hidden_errors(layer)
        for layer in placement.layers:
            p.update(layer, learning, output=layer == last)
    elif stream:
        odd = linear or last % 2
        behind = range(column + 1, placement.columns) if odd else range(row + 1, placement.rows)
        places = [(row, k) if odd else (k, column) for k in behind]
        rest = sum(len(placement.owned(last, *place)) for place in places)
        port, back = ("W", "E") if odd else ("N", "S")
        p.send(p.layout.values[last], p.owned(last), port=port, behind=back, rest=rest)
    if samples > 1:
        p.emit("LOOP LC0 again", "HALT", "again:", "JMP next")
    else:
        p.emit("HALT")


def _take(p: ProgramText, layer: int, base: int, *, shared: bool, linear: bool) -> None:
    """Take the inputs (layer 0) or targets of a sample from the host's side of the array."""
    placement, row, column = p.placement, p.row, p.column
    along_row = linear or (layer % 2 == 1)
    port, onward = ("E", "W") if along_row else ("S", "N")
    first = column == 0 if along_row else row == 0
    own = p.held(0) if layer == 0 else p.owned(layer)
    before = [(row, k) for k in range(column)] if along_row else [(k, column) for k in range(row)]
    rest = sum(len(placement.held(0, *q) if layer == 0 else placement.owned(layer, *q)) for q in before)
    p.receive(base, own, port=port, onward=None if first else onward, rest=rest, shared=shared)
