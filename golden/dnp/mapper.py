"""The mapper: a layered network onto an array, as every processor's program and data (D9, D11, D13)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import EAST, NORTH, SOUTH, WEST, Grid, Topology
from golden.dnp.arithmetic import Ints
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import assemble
from golden.dnp.layout import DoesNotFitError, Layout
from golden.dnp.network import Learning, Network, sigmoid_table
from golden.dnp.pipeline import StreamText, stream_program
from golden.dnp.placement import Placement
from golden.dnp.program_text import ProgramText

__all__ = ["Mapping", "map_network"]

#: Processors of a ring, and samples, from which on overlapping saves more waiting than pointers and filling cost.
_WORTH = 8


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
    overlapped: bool | None = None,
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
    overlapped
        Let the passes of several samples overlap (`golden.dnp.pipeline`), which a torus of 2 × 2 processors or more can
        do; by default where rings and samples are 8 or more and the memories are large enough.

    Raises
    ------
    DoesNotFitError
        If a memory is too small.
    ValueError
        If `samples` is out of range, more than one sample or learning is asked for without `stream`, or passes are to
        overlap that cannot.
    """
    config = config or ProcessorConfig()
    if not 1 <= samples < 1 << 16:
        raise ValueError(f"samples must be in 1..65535, not {samples!r}")
    if not stream and (samples > 1 or learning):
        raise ValueError("stream must be True for learning and for more than one sample, not False")
    can = grid.topology is Topology.TORUS and min(grid.rows, grid.columns) > 1 and samples > 1 and not learning
    if overlapped and not can:
        raise ValueError("overlapped must be False without a torus of 2 x 2, two samples, or with learning, not True")
    worth = overlapped is None and min(grid.rows, grid.columns, samples) >= _WORTH
    if can and (overlapped or worth):
        try:
            return _mapped(network, grid, config, learning, samples, stream=stream, overlapped=True)
        except DoesNotFitError:
            if overlapped:
                raise
    return _mapped(network, grid, config, learning, samples, stream=stream, overlapped=False)


def _mapped(
    network: Network,
    grid: Grid,
    config: ProcessorConfig,
    learning: Learning | None,
    samples: int,
    *,
    stream: bool,
    overlapped: bool,
) -> Mapping:
    linear = grid.topology is Topology.LINEAR
    rows, columns = (1, grid.processors) if linear else (grid.rows, grid.columns)
    ring = grid.topology is Topology.TORUS
    placement = Placement(network.sizes, rows, columns, ring=ring, rounds=ring and learning is None)
    sides = frozenset({EAST, SOUTH}) if stream and not linear else frozenset()
    grid = Grid(grid.rows, grid.columns, grid.topology, grid.host | sides)
    layouts, texts = [], []
    for processor in range(grid.processors):
        row, column = divmod(processor, columns)
        layout = Layout.of(placement, row, column, config, learning=learning is not None, overlapped=overlapped)
        program: ProgramText
        if overlapped:
            program = StreamText(placement, layout, row, column)
            stream_program(program, samples)
        else:
            program = ProgramText(placement, layout, row, column)
            _write(program, linear=linear, learning=learning, samples=samples, stream=stream)
        if program.words > config.p_depth:
            raise DoesNotFitError(
                f"layers {placement.sizes} on {placement.rows} x {placement.columns} processors need {program.words} "
                f"words of program memory in processor ({row}, {column}), which has {config.p_depth}"
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
