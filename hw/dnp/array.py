# mypy: disable-error-code="attr-defined,index"
"""The machine: boards of chips, the connectors at their edges, and the G-bus of each board (D10)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import NORTH, SOUTH, Grid, Topology
from hw.dnp.ccb import G_BUS
from hw.dnp.chip import CORE_MODULE, NeuralChip
from hw.dnp.core import Core
from hw.dnp.port import WORD_STREAM
from hw.stream.black_box import BlackBox

__all__ = ["BOARD", "CHIP_MODULE", "ProcessorArray"]

#: Processors along a side of a board (D10).
BOARD = 8

#: Module that every array instantiates.
CHIP_MODULE = "neural_chip"


class ProcessorArray(wiring.Component):
    """An array of processors whose edges are joined by the host, while off-line.

    The modules ``CHIP_MODULE`` and ``CORE_MODULE`` are generated apart, so that 1,024 processors cost the emission of
    one. At the connectors, ``ready`` of an input reaches the output that is joined to it, and nothing else.

    Parameters
    ----------
    rows, columns
        Processors; even numbers, or 1 by 1.
    config
        Memory sizes of the processors.
    board
        Processors along a side of a board; an even number.

    Attributes
    ----------
    i, o
        The host's and the interface board's end of every edge port, in the order of ``Grid.edges()``.
    topology
        Joints of the edges (``Topology``).
    host
        Sides (bit 0 north, 1 east, 2 south, 3 west) whose inputs come from the host in every topology.
    g_i, g_o
        G-bus of each board, row by row; chips are counted over the whole array. A smaller array has
        one. The boards are loaded side by side; frames for all processors go to each board.
    online
        The programs of all boards run.
    halted
        All programs have ended.

    Raises
    ------
    ValueError
        If the size is neither even nor 1 by 1, or that of a board is odd.
    """

    i: Any
    o: Any
    topology: Signal
    host: Signal
    g_i: Any
    g_o: Any
    online: Signal
    halted: Signal

    def __init__(self, rows: int, columns: int, config: ProcessorConfig | None = None, *, board: int = BOARD) -> None:
        if (rows, columns) != (1, 1) and (rows % 2 or columns % 2):
            raise ValueError(f"rows and columns must be even, or both 1, not {rows} and {columns}")
        self.config = config or ProcessorConfig()
        self.grid = Grid(rows, columns)
        self.side = 1 if rows == 1 else 2
        if board < 2 or board % 2:
            raise ValueError(f"board must be an even number from 2, not {board}")
        self.board_side = board
        #: Boards, row by row.
        self.boards = -(-rows // board) * -(-columns // board)
        edges = len(self.grid.edges())
        super().__init__(
            {
                "i": In(WORD_STREAM).array(edges),
                "o": Out(WORD_STREAM).array(edges),
                "topology": In(2),
                "host": In(4),
                "g_i": In(G_BUS).array(self.boards),
                "g_o": Out(G_BUS).array(self.boards),
                "online": Out(1),
                "halted": Out(1),
            }
        )

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Modules that are generated apart, by name; with these the array is complete."""
        return {CHIP_MODULE: self.chip(), CORE_MODULE: Core(self.config)}

    def chip(self, *, once: bool = True) -> NeuralChip:
        """Make a chip as the array uses it, to generate its module from."""
        return NeuralChip(self.config, rows=self.side, columns=self.side, once=once)

    def place(self, processor: int) -> tuple[int, int]:
        """Chip and core of a processor on the G-bus."""
        row, column = divmod(processor, self.grid.columns)
        chip = row // self.side * (self.grid.columns // self.side) + column // self.side
        return chip, row % self.side * self.side + column % self.side

    def board(self, processor: int) -> int:
        """Board of a processor."""
        row, column = divmod(processor, self.grid.columns)
        side = self.board_side
        return row // side * -(-self.grid.columns // side) + column // side

    def elaborate(self, platform: Any) -> Module:
        """Place the chips, link them, join the edges, spread the G-buses."""
        m = Module()
        chip_rows, chip_columns = self.grid.rows // self.side, self.grid.columns // self.side
        one = self.chip()
        one._MustUse__used = True  # stands for its signature alone
        places = {edge: index for index, edge in enumerate(one.grid.edges())}
        chips = []
        for index in range(chip_rows * chip_columns):
            chip = one.signature.create(path=(f"chip_{index}",))
            m.submodules[f"chip_{index}"] = BlackBox(chip, CHIP_MODULE)
            m.d.comb += chip.identity.eq(index)
            chips.append(chip)

        def port(side: int, row: int, column: int, way: str) -> Any:
            """Edge port of the chip at a place in the array of chips; row or column counts processors along it."""
            along = column if side in (NORTH, SOUTH) else row
            chip = chips[row // self.side * chip_columns + column // self.side]
            return getattr(chip, way)[places[side, along % self.side]]

        for row in range(self.grid.rows):
            for column in range(self.grid.columns):
                if row % self.side == self.side - 1 and row + 1 < self.grid.rows:
                    wiring.connect(m, port(SOUTH, row, column, "o"), port(NORTH, row + 1, column, "i"))
                    wiring.connect(m, port(NORTH, row + 1, column, "o"), port(SOUTH, row, column, "i"))
                if column % self.side == self.side - 1 and column + 1 < self.grid.columns:
                    wiring.connect(m, port(1, row, column, "o"), port(3, row, column + 1, "i"))
                    wiring.connect(m, port(3, row, column + 1, "o"), port(1, row, column, "i"))

        edges = self.grid.edges()
        inner = {}
        for edge in edges:
            row, column = divmod(self.grid.edge(*edge)[0], self.grid.columns)
            inner[edge] = (port(edge[0], row, column, "i"), port(edge[0], row, column, "o"))
        self._join(m, edges, inner)
        for board in range(self.boards):
            own = [chip for index, chip in enumerate(chips) if self._board_of_chip(index) == board]
            self._spread(m, self.g_i[board], self.g_o[board], own)
        m.d.comb += [
            self.online.eq(Cat(chip.online for chip in chips).all()),
            self.halted.eq(Cat(chip.halted for chip in chips).all()),
        ]
        return m

    def _board_of_chip(self, chip: int) -> int:
        row, column = divmod(chip, self.grid.columns // self.side)
        return self.board((row * self.grid.columns + column) * self.side)

    def _join(self, m: Module, edges: list[tuple[int, int]], inner: dict[tuple[int, int], tuple[Any, Any]]) -> None:
        """Connect each edge input to the output joined to it, or to the host."""
        ready: dict[tuple[int, int], Any] = dict.fromkeys(edges, Const(0))
        fed: dict[tuple[int, int], Any] = dict.fromkeys(edges, Const(0))
        for index, edge in enumerate(edges):
            into, outer = inner[edge][0], self.i[index]
            valid, payload, joined = outer.valid, outer.payload, Const(0)
            for topology in Topology:
                if topology is Topology.PASF and self.grid.rows != self.grid.columns:
                    continue
                source = Grid(self.grid.rows, self.grid.columns, topology).joint(*edge)
                if source is None:
                    continue
                chosen = (self.topology == int(topology)) & ~self.host[edge[0]]
                out = inner[source][1]
                valid, payload = Mux(chosen, out.valid, valid), Mux(chosen, out.payload, payload)
                ready[source] |= chosen & into.ready
                fed[source] |= chosen
                joined |= chosen
            m.d.comb += [into.valid.eq(valid), into.payload.eq(payload), outer.ready.eq(into.ready & ~joined)]
        for index, edge in enumerate(edges):
            out, outer = inner[edge][1], self.o[index]
            m.d.comb += [
                outer.valid.eq(out.valid & ~fed[edge]),
                outer.payload.eq(out.payload),
                out.ready.eq(Mux(fed[edge], ready[edge], outer.ready)),
            ]

    def _spread(self, m: Module, g_i: Any, g_o: Any, chips: list[Any]) -> None:
        """Connect the G-bus of a board: each of its chips receives every word; at most one answers."""
        ready: Any = Cat(chip.g_i.ready for chip in chips).all()
        valid: Any = 0
        payload: Any = 0
        for chip in chips:
            valid |= chip.g_o.valid
            payload |= Mux(chip.g_o.valid, chip.g_o.payload, 0)
        m.d.comb += [g_i.ready.eq(ready), g_o.valid.eq(valid), g_o.payload.eq(payload)]
        for chip in chips:
            m.d.comb += [
                chip.g_i.valid.eq(g_i.valid & ready),
                chip.g_i.payload.eq(g_i.payload),
                chip.g_o.ready.eq(g_o.ready),
            ]
