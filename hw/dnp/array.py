# mypy: disable-error-code="attr-defined,index"
"""The machine: boards of chips, the connectors at their edges, and the G-bus of each board (D10)."""

from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, DomainRenamer, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import EAST, NORTH, OPPOSITE, SOUTH, Grid, Topology
from hw.dnp.ccb import G_BUS
from hw.dnp.chip import CORE_MODULE, NeuralChip
from hw.dnp.core import Core
from hw.dnp.port import WORD_STREAM
from hw.stream.black_box import BlackBox
from hw.stream.crossing import Crossing

__all__ = ["BOARD", "CHIP_MODULE", "ProcessorArray"]

#: Processors along a side of a board (D10).
BOARD = 8
#: Words that wait between two clocks: with fewer a link carries less than a word a clock.
LINK_DEPTH = 8

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
    clocks
        Each board has a clock of its own (domain ``board_0``, …); links between boards, joints and G-buses cross
        between clocks (`hw.stream.crossing`). A link is reset while its boards are off-line, so boards are switched off
        together, for some clocks, before any is switched on again.

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
    stop, stopped
        The first error that ended a program since they all started, or none, and the processor's number.

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
    stop: Signal
    stopped: Signal

    def __init__(
        self,
        rows: int,
        columns: int,
        config: ProcessorConfig | None = None,
        *,
        board: int = BOARD,
        clocks: bool = False,
    ) -> None:
        if (rows, columns) != (1, 1) and (rows % 2 or columns % 2):
            raise ValueError(f"rows and columns must be even, or both 1, not {rows} and {columns}")
        self.config = config or ProcessorConfig()
        self.grid = Grid(rows, columns)
        self.side = self.grid.chip_side
        if board < 2 or board % 2:
            raise ValueError(f"board must be an even number from 2, not {board}")
        self.board_side = board
        #: Boards, row by row.
        self.boards = -(-rows // board) * -(-columns // board)
        #: Clock domain of each board.
        self.clocked = [f"board_{number}" if clocks else "sync" for number in range(self.boards)]
        #: Domains of the ports of a generated module.
        self.domains = tuple(dict.fromkeys(["sync", *self.clocked]))
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
                "stop": Out(StopCode),
                "stopped": Out(range(max(2, self.grid.processors))),
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
        return self.grid.place(processor)

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
            box = BlackBox(chip, CHIP_MODULE)
            m.submodules[f"chip_{index}"] = DomainRenamer(self.clocked[self._board_of_chip(index)])(box)
            m.d.comb += chip.identity.eq(index)
            chips.append(chip)

        def port(side: int, row: int, column: int, way: str) -> Any:
            """Edge port of the chip at a place in the array of chips; row or column counts processors along it."""
            along = column if side in (NORTH, SOUTH) else row
            chip = chips[row // self.side * chip_columns + column // self.side]
            return getattr(chip, way)[places[side, along % self.side]]

        online = self._states(m, chips)
        self._stops(m, chips)
        link = partial(self._link, m, online)
        for row in range(self.grid.rows):
            for column in range(self.grid.columns):
                here = self.board(row * self.grid.columns + column)
                for side, dr, dc in ((SOUTH, 1, 0), (EAST, 0, 1)):
                    r, c = row + dr, column + dc
                    if (dr * row + dc * column) % self.side < self.side - 1 or r == self.grid.rows:
                        continue
                    if c == self.grid.columns:
                        continue
                    there, back = self.board(r * self.grid.columns + c), OPPOSITE[side]
                    link(port(side, row, column, "o"), here, port(back, r, c, "i"), there)
                    link(port(back, r, c, "o"), there, port(side, row, column, "i"), here)

        edges = self.grid.edges()
        inner = {}
        for edge in edges:
            processor = self.grid.edge(*edge)[0]
            row, column = divmod(processor, self.grid.columns)
            into, out = WORD_STREAM.create(), WORD_STREAM.create()
            link(into, None, port(edge[0], row, column, "i"), self.board(processor))
            link(port(edge[0], row, column, "o"), self.board(processor), out, None)
            inner[edge] = (into, out)
        self._join(m, edges, inner)
        for board in range(self.boards):
            own = [chip for index, chip in enumerate(chips) if self._board_of_chip(index) == board]
            given, answer = G_BUS.create(), G_BUS.create()
            self._cross(m, wiring.flipped(self.g_i[board]), "sync", given, self.clocked[board])
            self._cross(m, answer, self.clocked[board], wiring.flipped(self.g_o[board]), "sync")
            self._spread(m, given, answer, own)
        return m

    def _states(self, m: Module, chips: list[Any]) -> list[Any]:
        """Say whether all run and whether all have ended; return each board's own word for the first."""
        online, seen = [], []
        for board, domain in enumerate(self.clocked):
            own = [chip for index, chip in enumerate(chips) if self._board_of_chip(index) == board]
            states = [Cat(chip.online for chip in own).all(), Cat(chip.halted for chip in own).all()]
            online.append(states[0])
            if domain != "sync":
                held, across = Signal(2, name=f"states_{board}"), Signal(2, name=f"states_seen_{board}")
                m.d[domain] += held.eq(Cat(states))
                m.submodules[f"states_{board}"] = FFSynchronizer(held, across)
                states = [across[0], across[1]]
            seen.append(states)
        m.d.comb += [
            self.online.eq(Cat(one for one, _ in seen).all()),
            self.halted.eq(Cat(one for _, one in seen).all()),
        ]
        return online

    def _stops(self, m: Module, chips: list[Any]) -> None:
        """Keep the first error of each board in its clock, and of these the one that is seen first."""
        code: Any = Const(0, len(self.stop))
        who: Any = Const(0, len(self.stopped))
        for board, domain in reversed(list(enumerate(self.clocked))):
            held, kept, seen = Signal.like(self.stop), Signal.like(self.stopped), Signal(name=f"stop_seen_{board}")
            some, number, flag = Signal.like(self.stop), Signal.like(self.stopped), Signal(name=f"stop_flag_{board}")
            for processor in reversed(range(self.grid.processors)):
                if self.board(processor) == board:
                    chip, core = self.place(processor)
                    with m.If(chips[chip].stops[core] != StopCode.NONE):
                        m.d.comb += [some.eq(chips[chip].stops[core]), number.eq(processor)]
            with m.If(some == StopCode.NONE):
                m.d[domain] += held.eq(StopCode.NONE)
            with m.Elif(held == StopCode.NONE):
                m.d[domain] += [held.eq(some), kept.eq(number)]
            # Between clocks the flag follows when code and number have been still for a clock.
            m.d[domain] += flag.eq(held != StopCode.NONE)
            if domain == "sync":
                m.d.comb += seen.eq(flag)
            else:
                m.submodules[f"stop_{board}"] = FFSynchronizer(flag, seen)
            code, who = Mux(seen, held, code), Mux(seen, kept, who)
        with m.If(code == StopCode.NONE):
            m.d.sync += self.stop.eq(StopCode.NONE)
        with m.Elif(self.stop == StopCode.NONE):
            m.d.sync += [self.stop.eq(code), self.stopped.eq(who)]

    def _link(self, m: Module, online: list[Any], out: Any, source: int | None, into: Any, target: int | None) -> None:
        """Connect ports of two boards, or of a board and the connectors (``None``)."""
        if source == target:
            wiring.connect(m, out, into)
            return
        sides = [(self.online, "sync") if end is None else (online[end], self.clocked[end]) for end in (source, target)]
        (sends, sender), (receives, receiver) = sides
        self._cross(m, out, sender, into, receiver, {"write": ~sends, "read": ~receives})

    def _cross(
        self, m: Module, out: Any, sender: str, into: Any, receiver: str, resets: dict[str, Any] | None = None
    ) -> None:
        """Connect two streams, across clocks where theirs differ."""
        if sender == receiver:
            m.d.comb += [into.valid.eq(out.valid), into.payload.eq(out.payload), out.ready.eq(into.ready)]
            return
        crossing = Crossing(into.payload.shape(), LINK_DEPTH)
        m.d.comb += [
            crossing.i.valid.eq(out.valid),
            crossing.i.payload.eq(out.payload),
            # A word that came during the reset would be lost.
            out.ready.eq(crossing.i.ready & (~resets["write"] if resets else 1)),
            into.valid.eq(crossing.o.valid),
            into.payload.eq(crossing.o.payload),
            crossing.o.ready.eq(into.ready),
        ]
        crossed = ResetInserter(resets)(crossing) if resets else crossing
        name = f"crossing_{len(m._named_submodules)}"
        m.submodules[name] = DomainRenamer({"write": sender, "read": receiver})(crossed)

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
