# mypy: disable-error-code="attr-defined,index"
"""The array of DNP-IIs as an IP: registers behind AXI4-Lite, words behind two AXI4-Streams (D7, D10)."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect

from contracts import ArrayError
from contracts.dnp.board import BEAT, BeatKind
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import HEADER
from contracts.dnp.topology import Topology
from contracts.parameters import Parameters, part, size
from contracts.registers import ARRAY_COUNTERS, array_register
from hw.contracts import struct
from hw.dnp.array import ProcessorArray
from hw.dnp.buffer_board import BufferBoard
from hw.dnp.edge_collector import EdgeCollector
from hw.dnp.edge_feeder import EdgeFeeder
from hw.dnp.formats import Beat
from hw.dnp.run_control import RunControl
from hw.host.array_port import ADDRESS_WIDTH, ArrayPort
from hw.host.axi_lite import AXI4LiteSignature
from hw.memory.axi import flat_members
from hw.reset import Resettable
from hw.stream.queue import Queue

__all__ = ["AXI4StreamSignature", "ArrayConfig", "NeuralMachine"]


@dataclass(frozen=True)
class ArrayConfig(Parameters):
    """Sizes of an array of DNP-IIs with its boards.

    Parameters
    ----------
    rows, columns
        Processors; a chip has 2 × 2 of them.
    board
        Processors along a side of a board. Boards are loaded over G-buses of their own.
    input
        Beats that wait behind the incoming stream.
    output
        Beats that wait for the outgoing stream.
    port
        Words that wait for each edge port.
    core
        Memory sizes of each processor.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or the array is too large for the G-bus.
    """

    rows: int = size(4, 2, 64, step=2)
    columns: int = size(4, 2, 64, step=2)
    board: int = size(8, 2, 64, step=2)
    input: int = size(1024, 4, 1 << 15)
    output: int = size(1024, 4, 1 << 15)
    port: int = size(16, 1, 1 << 12)
    core: ProcessorConfig = part(ProcessorConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        chips = 1 << next(field.bits for field in HEADER.fields if field.name == "chip")
        if self.rows * self.columns // 4 > chips:
            raise ValueError(f"rows x columns must be at most {4 * chips}, not {self.rows} x {self.columns}")


class AXI4StreamSignature(wiring.Signature):
    """AXI4-Stream with TLAST, as seen by the manager.

    Parameters
    ----------
    data_width
        Width of TDATA, in bits; every byte is valid.
    """

    def __init__(self, data_width: int = BEAT.bits) -> None:
        super().__init__({"tdata": Out(data_width), "tlast": Out(1), "tvalid": Out(1), "tready": In(1)})


class NeuralMachine(wiring.Component):
    """An array with its interface board, its buffer board, and registers.

    Beats of `s_axis` are words of frames or of edge ports (`contracts.dnp.board`), those of `m_axis` words of edge
    ports, words that were read back, and the end of each run. Both streams have a FIFO in block RAM. TVALID of `m_axis`
    and TREADY of `s_axis` are registers; neither waits for the other side.

    Parameters
    ----------
    config : ArrayConfig

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
        See `hw.host.array_port.ArrayPort`.
    irq : Out(1)
    s_axis_*, m_axis_* : AXI4-Stream with TLAST
    """

    def __init__(self, config: ArrayConfig | None = None) -> None:
        self.config = config = config or ArrayConfig()
        self.array = ProcessorArray(config.rows, config.columns, config.core, board=config.board)
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                **flat_members("s_axis", In(AXI4StreamSignature())),
                **flat_members("m_axis", Out(AXI4StreamSignature())),
            }
        )

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Modules that are generated apart, by name."""
        return self.array.modules

    def sizes(self) -> dict[str, int]:
        """Return the values of the registers that describe the hardware, by name."""
        config, core = self.config, self.config.core
        fields = {
            "SIZE": {
                "rows": config.rows,
                "columns": config.columns,
                "chip": self.array.side,
                "table_bits": core.table_bits,
            },
            "MEMORY": {"wm": core.wm_depth - 1, "xm": core.xm_depth - 1},
            "PROGRAM": {"p": core.p_depth - 1},
            "BUFFERS": {"port": config.port, "input": config.input},
        }
        return {name: array_register(name).layout.pack(values) for name, values in fields.items()}

    def elaborate(self, platform: Any) -> Module:
        """Connect array, boards and registers; sort the incoming beats by their kind."""
        m = Module()
        array, config, grid = self.array, self.config, self.array.grid
        # Registers: what was taken and not used is dropped, and the array is reset, which keeps its memories.
        flushed, cleared = Signal(init=1), Signal(init=1)
        droppable, clearable = Resettable(m, "taken", flushed), Resettable(m, "array", cleared)
        square = grid.rows == grid.columns
        topologies = tuple(topology for topology in Topology if square or topology is not Topology.PASF)
        chips: list[set[int]] = [set() for _ in range(array.boards)]
        for processor in range(grid.processors):
            chips[array.board(processor)].add(array.place(processor)[0])
        m.submodules.port = port = ArrayPort(self.sizes(), topologies)
        m.submodules.run = run = RunControl()
        m.submodules.array = clearable(array)
        m.submodules.incoming = incoming = droppable(Queue(Beat(), config.input))
        m.submodules.outgoing = outgoing = Queue(Beat(), config.output)
        m.submodules.buffer_board = buffers = droppable(
            BufferBoard([sorted(own) for own in chips], array.side**2, config.core)
        )
        m.submodules.feeder = feeder = droppable(EdgeFeeder(grid, config.port))
        m.submodules.collector = collector = EdgeCollector(len(grid.edges()))
        for name in port.signature.members:
            if name.startswith("s_axil_"):
                outer, inner = getattr(self, name), getattr(port, name)
                m.d.comb += outer.eq(inner) if port.signature.members[name].flow == Out else inner.eq(outer)
        connect(m, run.command, buffers.command)
        connect(m, run.end, collector.end)
        connect(m, buffers.answer, collector.answer)
        connect(m, collector.o, outgoing.i)
        for board in range(array.boards):
            connect(m, buffers.g_o[board], array.g_i[board])
            connect(m, array.g_o[board], buffers.g_i[board])
        for edge in range(len(grid.edges())):
            connect(m, feeder.o[edge], array.i[edge])
            connect(m, array.o[edge], collector.i[edge])
        settled = self._sort(m, incoming, buffers, feeder, port, flushed)
        m.d.sync += [flushed.eq(port.flush), cleared.eq(port.flush | buffers.restart)]
        for block in (array, feeder):
            m.d.comb += [block.topology.eq(port.topology), block.host.eq(port.host)]
        counts = {
            "clocks": run.running,
            "words_in": feeder.taken,
            "words_out": collector.given,
            "words_loaded": buffers.i.valid & buffers.i.ready,
            "words_read": collector.read,
        }
        m.d.comb += [
            self.irq.eq(port.irq),
            self.m_axis_tvalid.eq(outgoing.o.valid),
            self.m_axis_tdata.eq(outgoing.o.payload.beat),
            self.m_axis_tlast.eq(outgoing.o.payload.last),
            outgoing.o.ready.eq(self.m_axis_tready),
            run.start.eq(port.start),
            run.stop.eq(port.stop),
            run.settled.eq(settled),
            run.online.eq(array.online),
            run.halted.eq(array.halted),
            run.results.eq(Cat(edge.valid for edge in array.o).any()),
            buffers.closed.eq(run.closed),
            collector.packet.eq(port.packet),
            port.busy.eq(run.busy),
            port.done.eq(run.done),
            port.loading.eq(~settled),
            port.answering.eq(buffers.answering),
            port.code.eq(array.stop),
            port.processor.eq(array.stopped),
            port.counts.eq(Cat(counts[name] for name in ARRAY_COUNTERS)),
        ]
        return m

    def _sort(
        self, m: Module, incoming: Queue, buffers: BufferBoard, feeder: EdgeFeeder, port: ArrayPort, flushed: Signal
    ) -> Any:
        """Bring each incoming beat where its kind says; return whether no frame is left in front of a start."""
        beat, last = incoming.o.payload.beat, incoming.o.payload.last
        kind, moves = data.View(struct(BEAT), beat).kind, Signal()
        m.d.comb += [
            # Nothing is taken in the clock in which it would be dropped.
            incoming.i.valid.eq(self.s_axis_tvalid & ~flushed),
            incoming.i.payload.beat.eq(self.s_axis_tdata),
            incoming.i.payload.last.eq(self.s_axis_tlast),
            self.s_axis_tready.eq(incoming.i.ready & ~flushed),
            moves.eq(incoming.o.valid & incoming.o.ready),
            feeder.i.payload.eq(beat),
            buffers.i.payload.word.eq(beat.word),
            buffers.i.payload.last.eq(last),
            buffers.cut.eq(moves & last & (kind != BeatKind.G_BUS)),
        ]
        refusal, unknown = port.refusal, Signal()
        with m.Switch(kind):
            with m.Case(BeatKind.EDGE):
                m.d.comb += [feeder.i.valid.eq(incoming.o.valid), incoming.o.ready.eq(feeder.i.ready)]
            with m.Case(BeatKind.G_BUS):
                m.d.comb += [buffers.i.valid.eq(incoming.o.valid), incoming.o.ready.eq(buffers.i.ready)]
            with m.Default():
                m.d.comb += [unknown.eq(incoming.o.valid), incoming.o.ready.eq(1)]
        m.d.comb += refusal.eq(buffers.refusal)
        with m.If(unknown):
            m.d.comb += [refusal.code.eq(ArrayError.KIND), refusal.info.eq(beat)]
        with m.Elif(feeder.refusal.code != ArrayError.NONE):
            m.d.comb += refusal.eq(feeder.refusal)
        # An edge word that waits for its queue is one for the run that starts; frames behind it are for later.
        waits = feeder.i.valid & ~feeder.i.ready
        return buffers.idle & ((incoming.level == 0) | waits)
