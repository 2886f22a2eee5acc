"""Control of the ring unit: steps through LIST, SCATTER, REDUCE and BARRIER (R15)."""

from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, COMMANDS, LINE_BYTES, ROW_BYTES, VALUE_BITS, Error, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.graph.formats import CsrRequest
from hw.memory.formats import WORD_BYTES, RangeRequest, line_address_width
from hw.ring.formats import POSITION_BITS, RingConfig
from hw.ring.sender import RowSettings

__all__ = ["RING_OPCODES", "Control", "Phase", "operands"]

#: Commands that the ring unit carries out.
RING_OPCODES = (Opcode.LIST, Opcode.SCATTER, Opcode.REDUCE, Opcode.BARRIER)
#: Of a command the opcode and all bits from the first operand on to the last one's end are kept.
_OPERANDS = 32
_END = max(
    field.offset + field.width
    for opcode in RING_OPCODES
    for name, field in struct(COMMANDS[opcode])
    if not name.startswith("reserved")
)
_WORDS_OF_LINE = exact_log2(LINE_BYTES // WORD_BYTES)
_ELEMENTS_OF_GRANULE = exact_log2(ROW_BYTES * 8 // VALUE_BITS)


class Phase(enum.Enum, shape=3):  # type: ignore[call-arg]
    """What the readers and the way to memory are used for."""

    NONE = 0
    LOAD = 1
    BUILD = 2
    FLOW = 3
    REDUCE = 4


def operands(bits: Any, opcode: Opcode) -> Any:
    """View of the bits of a command that are kept as those of `opcode`."""
    layer_and_tag, rest = Const(0, _OPERANDS - 8), Const(0, 8 * COMMAND_BYTES - _END)
    return data.View(struct(COMMANDS[opcode]), Cat(bits[:8], layer_and_tag, bits[8:], rest))


class Control(wiring.Component):
    """One command at a time; units are started in order and waited for.

    LIST: boundary table; list of what is needed, from the edges. SCATTER: rows both ways, part by part, until with the
    last part all chiplets have drained. LIST and all but the last part are answered before, so that rows are combined
    meanwhile; the next command waits, and tells what went wrong. REDUCE: hubs and own shares. BARRIER: until all have
    arrived. An error ends the wait.

    Parameters
    ----------
    config : RingConfig
    address_width, data_width
        Widths of the memory port, in bits.
    max_beats
        Beats of the longest row.

    Attributes
    ----------
    chiplets, base : In
        Number of chiplets; line address that a command's addresses count from.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        Answers a command.
    refused : stream of `ErrorReport`, always ready
        What is wrong with the command, or missing at its end.
    failed, report : In
        The first error, of `refused` too.
    bits : Out
        Opcode and operands of the command, for `operands`, while it is carried out.
    phase : Out(Phase)
    rows : Out(RowSettings)
        Of the command's layer.
    last_sum_flit : Out(12)
        Flits of a row of sums, less one.
    load, build, flow, reduce : Out(1)
        For a cycle: start the units of this phase.
    send : Out(1)
        For a cycle: start to send a part of the rows.
    loaded, listed, sent, drained, reduced : In(1)
        The boundary table is read; the needed list is written; own rows are on the ring; all others' rows have come
        and are written; all hubs are done and written.
    missing : In(1)
        Rows are still waited for.
    lowest : In(32)
        A VID of theirs.
    offsets, hubs : streams of `RangeRequest`
        The out-edges' offsets of a SCATTER, the hub table of a REDUCE.
    shares : stream of `CsrRequest`
        Sources of the own shares.
    drain, forget, arrive, pass_ : Out(1)
        For the tokens.
    arrived : In(1)
        All others have come to the barrier.
    """

    def __init__(self, config: RingConfig, address_width: int = 32, data_width: int = 256, max_beats: int = 4) -> None:
        self.config, self.data_width = config, data_width
        pulses = {
            name: Out(1) for name in ("load", "build", "flow", "send", "reduce", "drain", "forget", "arrive", "pass_")
        }
        flags = ("loaded", "listed", "sent", "drained", "reduced", "missing", "arrived")
        super().__init__(
            {
                "chiplets": In(POSITION_BITS),
                "base": In(line_address_width(address_width)),
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "refused": Out(stream.Signature(ErrorReport, always_ready=True)),
                "failed": In(1),
                "report": In(ErrorReport),
                "bits": Out(8 + _END - _OPERANDS),
                "phase": Out(Phase),
                "rows": Out(RowSettings(address_width, data_width, max_beats)),
                "last_sum_flit": Out(12),
                **pulses,
                **{name: In(1) for name in flags},
                "lowest": In(32),
                "offsets": Out(stream.Signature(RangeRequest(address_width))),
                "hubs": Out(stream.Signature(RangeRequest(address_width))),
                "shares": Out(stream.Signature(CsrRequest(address_width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Decode, check, start, wait, answer."""
        m = Module()
        config, rows, given = self.config, self.rows, self.command.payload
        head = operands(self.bits, Opcode.NOP)
        scatter, reduce = operands(self.bits, Opcode.SCATTER), operands(self.bits, Opcode.REDUCE)
        tiles = operands(self.bits, Opcode.LIST).tiles
        known = Signal()  # there is a list
        answered = Signal()  # the command under way
        f_out = Signal(16)
        granules = ((f_out - 1) >> _ELEMENTS_OF_GRANULE) + 1
        beats_of_line = exact_log2(8 * LINE_BYTES // self.data_width)

        def in_words(line: Any) -> Any:
            return (self.base + line) << _WORDS_OF_LINE

        # Each request is made once a command.
        asked = Signal(3)
        asks = Signal(3)
        offsets, hubs, shares = self.offsets, self.hubs, self.shares
        entries = Signal(32)  # of the offsets
        m.d.comb += [
            self.executed.payload.eq(self.report),
            offsets.payload.address.eq(in_words(scatter.offsets)),
            offsets.payload.words.eq(entries),
            hubs.payload.address.eq(in_words(reduce.hub_homes)),
            hubs.payload.words.eq(reduce.hub_count),
            shares.payload.offsets.eq(in_words(reduce.offsets)),
            shares.payload.array.eq(in_words(reduce.edges)),
            shares.payload.words.eq(reduce.edge_count),
            shares.payload.rows.eq(reduce.hub_count),
            shares.payload.tiles.eq(1),
        ]
        for n, request in enumerate((offsets, hubs, shares)):
            m.d.comb += request.valid.eq(asks[n] & ~asked[n])
            with m.If(request.valid & request.ready):
                m.d.sync += asked[n].eq(1)

        def refuse(code: Error, info: Any) -> None:
            m.d.comb += [
                self.refused.valid.eq(1),
                self.refused.payload.code.eq(code),
                self.refused.payload.info.eq(info),
            ]
            m.next = "ANSWER"

        def unless_failed() -> None:
            with m.If(self.failed):
                m.next = "ANSWER"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [self.bits.eq(Cat(given[:8], given[_OPERANDS:_END])), asked.eq(0), answered.eq(0)]
                with m.If(self.command.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
                m.d.sync += f_out.eq(Mux(head.opcode == Opcode.REDUCE, reduce.f_out, scatter.f_out))
                m.d.sync += entries.eq(scatter.vertices * self.chiplets + 1)
                with m.Switch(head.opcode):
                    with m.Case(Opcode.LIST):
                        m.next = "LIST"
                        with m.If(tiles != self.chiplets):
                            refuse(Error.BAD_OPERAND, tiles)
                    with m.Case(Opcode.SCATTER, Opcode.REDUCE):
                        m.next = "CHECK"
                    with m.Case(Opcode.BARRIER):
                        m.d.comb += self.arrive.eq(1)
                        m.next = "BARRIER"
                    with m.Default():
                        refuse(Error.BAD_OPCODE, head.opcode)
                unless_failed()
            with m.State("CHECK"):
                combined = Mux(head.opcode == Opcode.REDUCE, reduce.combined, scatter.combined)
                m.d.sync += [
                    rows.stride.eq(granules * (8 * ROW_BYTES // self.data_width)),
                    rows.last_beat.eq((f_out - 1) >> exact_log2(self.data_width // VALUE_BITS)),
                    rows.last_flit.eq((f_out - 1) >> exact_log2(config.values)),
                    rows.elements.eq(f_out),
                    rows.base.eq((self.base + combined) << beats_of_line),
                    self.last_sum_flit.eq((f_out - 1) >> exact_log2(config.sums)),
                ]
                with m.If((f_out == 0) | (f_out > config.max_out)):
                    refuse(Error.BAD_OPERAND, f_out)
                with m.Elif(head.opcode == Opcode.REDUCE):
                    m.next = "REDUCE"
                    with m.If(reduce.hub_count == 0):
                        m.next = "ANSWER"
                with m.Elif(~known):
                    refuse(Error.BAD_OPCODE, head.opcode)
                with m.Elif(scatter.tiles != self.chiplets):
                    refuse(Error.BAD_OPERAND, scatter.tiles)
                with m.Else():
                    m.next = "FLOW_START"
            with m.State("FLOW_START"):
                # What is needed comes in one go, whatever the parts of others are.
                m.d.comb += [self.flow.eq(self.phase != Phase.FLOW), self.send.eq(1)]
                m.d.sync += self.phase.eq(Phase.FLOW)
                m.next = "FLOW"
            with m.State("FLOW"):
                m.d.comb += [asks[0].eq(1), self.executed.valid.eq(scatter.more & ~answered)]
                with m.If(self.executed.valid & self.executed.ready):
                    m.d.sync += answered.eq(1)
                with m.If(scatter.more):
                    with m.If(answered & (self.sent | self.failed)):
                        m.next = "IDLE"
                with m.Else():
                    with m.If(self.sent):
                        m.d.comb += self.drain.eq(1)
                        m.next = "DRAIN"
                    unless_failed()
            with m.State("DRAIN"):
                with m.If(self.drained):
                    m.d.comb += self.forget.eq(1)
                    m.d.sync += self.phase.eq(Phase.NONE)
                    m.next = "ANSWER"
                    with m.If(self.missing):
                        refuse(Error.MISSING, self.lowest)
                unless_failed()

            with m.State("LIST"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.d.comb += self.load.eq(1)
                    m.d.sync += self.phase.eq(Phase.LOAD)
                    m.next = "BOUNDARIES"
            with m.State("BOUNDARIES"):
                with m.If(self.loaded):
                    m.d.comb += self.build.eq(1)
                    m.d.sync += self.phase.eq(Phase.BUILD)
                    m.next = "BUILD"
                with m.If(self.failed):
                    m.next = "IDLE"
            with m.State("BUILD"):
                with m.If(self.listed):
                    m.d.sync += [self.phase.eq(Phase.NONE), known.eq(1)]
                with m.If(self.listed | self.failed):
                    m.next = "IDLE"

            with m.State("REDUCE"):
                m.d.comb += self.reduce.eq(1)
                m.d.sync += self.phase.eq(Phase.REDUCE)
                m.next = "HUBS"
            with m.State("HUBS"):
                m.d.comb += [asks[1].eq(1), asks[2].eq(1)]
                with m.If(self.reduced):
                    m.d.sync += self.phase.eq(Phase.NONE)
                    m.next = "ANSWER"
                unless_failed()

            with m.State("BARRIER"):
                with m.If(self.arrived):
                    m.d.comb += self.pass_.eq(1)
                    m.next = "ANSWER"
                unless_failed()
            with m.State("ANSWER"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.next = "IDLE"
        return m
