"""Control of the ring unit: steps through LIST, SCATTER, REDUCE and BARRIER (R15)."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import PARTIAL_BITS, ROW_BYTES, VALUE_BITS, Error, Opcode
from contracts.weights import GRANULE
from hw.command.checks import Check, refuse
from hw.command.front_end import CommandFrontEnd
from hw.command.relocator import in_words
from hw.graph.formats import CsrRequest
from hw.memory.formats import RangeRequest
from hw.ring.formats import POSITION_BITS, Phase, RingConfig
from hw.ring.list_control import ListControl, ListSettings
from hw.ring.send_queue import Part
from hw.ring.sender import RowSettings

__all__ = ["RING_OPCODES", "Control", "ExchangeSettings"]

#: Commands that the ring unit carries out, and the cycle in which each is accepted or refused.
_DECIDED = {Opcode.LIST: 2, Opcode.SCATTER: 2, Opcode.REDUCE: 2, Opcode.BARRIER: 1}
RING_OPCODES = tuple(_DECIDED)
#: Which address adder each operand uses.
_SLOTS = {
    Opcode.LIST: ("boundaries", "needed", "others"),
    Opcode.SCATTER: ("out_tiles", "needed", "combined"),
    Opcode.REDUCE: ("offsets", "hub_homes", "combined", "edges"),
}
#: The same of SHARE, which only a ring unit beside an attribute core has.
_SHARE_DECIDED, _SHARE_SLOTS = 2, ("offsets", "table", "attributes", "edges", "graph")
_ELEMENTS_OF_GRANULE = exact_log2(GRANULE)


class ExchangeSettings(data.StructLayout):
    """Operands of an exchange that all its parts share, beside the sizes of rows.

    ``needed``: word address of the needed list. ``in_order``: rows match in order (R7). ``backward``: they are
    gradients (R16).
    """

    def __init__(self, address_width: int = 32) -> None:
        super().__init__({"needed": RangeRequest(address_width)["address"].shape, "in_order": 1, "backward": 1})


class Control(wiring.Component):
    """One command at a time; units are started in order and waited for.

    LIST: boundary table; list of what is needed, beside the commands behind it
    (`hw.ring.list_control.ListControl`). SCATTER: rows both ways once there is the list, part by part, until with the
    last part all chiplets have drained. All but the last part are answered when they are in the queue of those to be
    sent (`hw.ring.send_queue.SendQueue`), with ``beside`` that one too, at once; other commands wait until all parts
    that were given are sent. REDUCE: hubs and own shares. BARRIER: until all have arrived. An error ends the wait, and
    stays until the next reset: every later command is answered with it, also if it was found behind the answer.

    SHARE: wait until all have arrived, read the table, wait until all have theirs; no chiplet reads by it before. From
    then on rows and partial sums are refused, because a row that waits for its command could hold up a reply that
    another command waits for.

    Parameters
    ----------
    config : RingConfig
    address_width, data_width
        Widths of the memory port, in bits.
    max_beats
        Beats of the longest row.
    error_sources
        Number of units that report errors.
    divided
        Whether there is SHARE.

    Attributes
    ----------
    chiplets, base : In
        Number of chiplets; line address that a command's addresses count from. Constant while a command is under way.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        Answers a command.
    errors : streams of `ErrorReport`, always ready
        Reports; they count at any time.
    failed, report : Out
        The first error since the last reset, whether reported, refused or missing at a command's end.
    bits, lines : Out
        Operands and addresses of the command, for `view` and `words`, while it is carried out.
    list_settings : Out(ListSettings)
        Operands of the last LIST.
    phase : Out(Phase)
    rows : Out(RowSettings)
        Of the command's layer.
    last_sum_flit : Out(12)
        Flits of a row of sums, less one.
    exchange : Out(ExchangeSettings)
        From `flow` on.
    load, build, flow, reduce : Out(1)
        For a cycle: start the units of this phase.
    parts : stream of `hw.ring.send_queue.Part`
        Own rows to send, from `flow` on.
    loaded, listed, sent, drained, reduced : In(1)
        The boundary table is read; the needed list is written; the rows of all `parts` are on the ring; all others'
        rows have come and are written; all hubs are done and written.
    exchanging : Out(1)
        A SCATTER that has been answered goes on beside other commands (`beside`); from before its answer until all
        rows have come, or it has failed.
    follows : Out(1)
        Pulse: a part has been handed over whose rows the next COMBINE makes.
    expects, reports : In(1)
        That has not begun; whether the engine says which of its rows are there.
    missing : In(1)
        Rows are still waited for.
    lowest : In(32)
        A VID of theirs.
    hubs : stream of `RangeRequest`
        The hub table of a REDUCE.
    shares : stream of `CsrRequest`
        Sources of the own shares.
    drain, forget, arrive, pass_ : Out(1)
        For the tokens.
    arrived : In(1)
        All others have come to the barrier.
    share : Out(1)
        For a cycle: read the table of lines.
    tabling : Out(1)
        From then on until `tabled`.
    tabled : In(1)
        It has been read.
    shared : Out(1)
        All chiplets have read it.
    """

    def __init__(
        self,
        config: RingConfig,
        address_width: int = 32,
        data_width: int = 256,
        max_beats: int = 4,
        error_sources: int = 2,
        *,
        divided: bool = False,
    ) -> None:
        self.config, self.divided = config, divided
        self.address_width, self.data_width = address_width, data_width
        decided = {**_DECIDED, **({Opcode.SHARE: _SHARE_DECIDED} if divided else {})}
        slots = {**_SLOTS, **({Opcode.SHARE: _SHARE_SLOTS} if divided else {})}
        self._front = front = CommandFrontEnd(decided, address_width, error_sources, slots=slots, sticky=True)
        pulses = {name: Out(1) for name in ("load", "build", "flow", "reduce", "drain", "forget", "arrive", "pass_")}
        flags = ("loaded", "listed", "sent", "drained", "reduced", "missing", "arrived")
        members = front.signature.members
        super().__init__(
            {
                "chiplets": In(POSITION_BITS),
                **{name: members[name] for name in ("base", "command", "executed", "errors", "failed", "report")},
                **{name: members[name] for name in ("bits", "lines")},
                "list_settings": Out(ListSettings(address_width, data_width)),
                "phase": Out(Phase),
                "rows": Out(RowSettings(address_width, data_width, max_beats)),
                "last_sum_flit": Out(12),
                "exchange": Out(ExchangeSettings(address_width)),
                **pulses,
                **{name: In(1) for name in flags},
                "lowest": In(32),
                "exchanging": Out(1),
                "follows": Out(1),
                "expects": In(1),
                "reports": In(1),
                "parts": Out(stream.Signature(Part(address_width))),
                "hubs": Out(stream.Signature(RangeRequest(address_width))),
                "shares": Out(stream.Signature(CsrRequest(address_width))),
                **({**dict.fromkeys(("share", "tabling", "shared"), Out(1)), "tabled": In(1)} if divided else {}),
            }
        )

    def view(self, opcode: Opcode) -> Any:
        """Return the command under way as one of `opcode`."""
        return self._front.operands.view(self.bits, opcode)

    def line(self, opcode: Opcode, name: str) -> Value:
        """Return an address of a command in lines."""
        line: Value = self.lines[self._front.slot(opcode, name)]
        return line

    def words(self, opcode: Opcode, name: str) -> Value:
        """Return an address of a command in words of 32 bits."""
        return in_words(self.line(opcode, name))

    def elaborate(self, platform: object) -> Elaboratable:
        """Start the units of an accepted command one after another; wait for them."""
        m = Module()
        m.submodules.front = front = self._front
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        for outer, inner in zip(self.errors, front.errors, strict=True):
            connect(m, flipped(outer), inner)
        m.d.comb += [
            front.base.eq(self.base),
            self.failed.eq(front.failed),
            self.report.eq(front.report),
            self.bits.eq(front.bits),
            *(outer.eq(line) for outer, line in zip(self.lines, front.lines, strict=True)),
        ]
        listed = Signal()  # there is a list, or will be
        phase, exchanging = Signal(Phase), Signal()
        due = self._flow(m, phase)
        self._size(m, listed, due | (phase == Phase.FLOW))
        asks, asked = Signal(2), Signal(2)
        self._request(m, asks, asked)
        sharing = front.opcode == Opcode.SHARE if self.divided else None
        scatter, reduce = front.view(Opcode.SCATTER), front.view(Opcode.REDUCE)

        def end() -> None:
            m.d.comb += front.done.eq(1)
            m.next = "IDLE"

        def unless_failed() -> None:
            with m.If(front.failed):
                end()

        starts_list = self._list(m, phase, due)
        m.d.sync += self.exchanging.eq(exchanging)

        def beside() -> None:
            m.d.comb += [front.early.eq(scatter.beside), exchanging.eq(scatter.beside)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += asked.eq(0)
                with m.If(front.start):
                    with m.Switch(front.opcode):
                        with m.Case(Opcode.LIST):
                            m.d.comb += [starts_list.eq(1), front.done.eq(1)]
                            m.d.sync += listed.eq(1)
                        with m.Case(Opcode.SCATTER):
                            m.next = "SCATTER"
                        with m.Case(Opcode.REDUCE):
                            m.next = "REDUCE"
                            with m.If(reduce.hub_count == 0):
                                end()
                        with m.Case(Opcode.BARRIER):
                            m.d.comb += self.arrive.eq(1)
                            m.next = "BARRIER"
                        if self.divided:
                            with m.Case(Opcode.SHARE):
                                m.d.comb += self.arrive.eq(1)
                                m.next = "MEET"
            with m.State("SCATTER"):
                beside()
                m.d.comb += self.parts.valid.eq(1)
                with m.If(self.parts.ready):
                    m.next = "FLOW"
                    with m.If(scatter.more):
                        end()
                unless_failed()
            with m.State("FLOW"):
                beside()
                with m.If(self.expects & self.command.valid):
                    # No COMBINE comes that makes the rows.
                    m.d.comb += [front.own.valid.eq(1), front.own.payload.code.eq(Error.BAD_OPCODE)]
                    m.d.comb += front.own.payload.info.eq(self.command.payload[:8])
                with m.If((phase == Phase.FLOW) & self.sent):
                    m.d.comb += self.drain.eq(1)
                    m.next = "DRAIN"
                unless_failed()
            with m.State("DRAIN"):
                beside()
                with m.If(self.drained):
                    m.d.comb += [self.forget.eq(1), front.own.valid.eq(self.missing)]
                    m.d.comb += [front.own.payload.code.eq(Error.MISSING), front.own.payload.info.eq(self.lowest)]
                    m.d.sync += phase.eq(Phase.NONE)
                    end()
                unless_failed()

            with m.State("REDUCE"):
                m.d.comb += self.reduce.eq(1)
                m.d.sync += phase.eq(Phase.REDUCE)
                m.next = "HUBS"
            with m.State("HUBS"):
                m.d.comb += asks.eq(~0)
                with m.If(self.reduced):
                    m.d.sync += phase.eq(Phase.NONE)
                    end()
                unless_failed()

            with m.State("BARRIER"):
                with m.If(self.arrived):
                    m.d.comb += self.pass_.eq(1)
                    if sharing is not None:
                        m.d.sync += self.shared.eq(self.shared | sharing)
                    end()
                unless_failed()
            if self.divided:
                self._share(m, unless_failed)
        return m

    def _flow(self, m: Module, phase: Signal) -> Signal:
        """Let rows come and go once there is the list; return whether parts wait for that."""
        front, given, due = self._front, self.parts, Signal()
        scatter = front.view(Opcode.SCATTER)
        m.d.comb += [
            given.payload.first_vertex.eq(scatter.first_vertex),
            given.payload.out_tiles.address.eq(front.words(Opcode.SCATTER, "out_tiles")),
            given.payload.out_tiles.words.eq(scatter.vertices),
            self.follows.eq(given.valid & given.ready & scatter.follows),
            # Rows of others come in one exchange, whatever their parts are.
            self.flow.eq(due & (self.phase == Phase.NONE) & ~front.failed),
        ]
        with m.If(self.flow):
            m.d.sync += [due.eq(0), phase.eq(Phase.FLOW)]
        with m.Elif(given.valid & given.ready & (phase != Phase.FLOW) & ~due):
            m.d.sync += [
                due.eq(1),
                self.exchange.needed.eq(front.words(Opcode.SCATTER, "needed")),
                self.exchange.in_order.eq(scatter.in_order),
                self.exchange.backward.eq(scatter.backward),
            ]
        return due

    def _list(self, m: Module, phase: Value, due: Value) -> Signal:
        """Have a list made; return what begins it.

        A command that reads lists waits, and all but SCATTER wait for parts that are to be sent.
        """
        m.submodules.list_control = lister = ListControl(self.address_width, self.data_width)
        front, list_, operands = self._front, self._front.view(Opcode.LIST), lister.operands
        lists = lister.phase != Phase.NONE
        # If no COMBINE has come that makes them, none will: what comes then is refused.
        waits = (due | ((phase == Phase.FLOW) & ~self.sent)) & ~self.expects
        m.d.comb += [
            operands.boundaries.eq(front.words(Opcode.LIST, "boundaries")),
            operands.needed.eq(front.beats(Opcode.LIST, "needed", self.data_width)),
            operands.others.address.eq(front.words(Opcode.LIST, "others")),
            operands.others.words.eq(list_.count),
            lister.failed.eq(front.failed),
            lister.loaded.eq(self.loaded),
            lister.listed.eq(self.listed),
            self.load.eq(lister.load),
            self.build.eq(lister.build),
            self.list_settings.eq(lister.settings),
            self.phase.eq(Mux(lists, lister.phase, phase)),
            front.hold.eq((front.opcode != Opcode.SCATTER) & ((lists & (front.opcode != Opcode.BARRIER)) | waits)),
        ]
        return lister.start

    def _share(self, m: Module, unless_failed: Callable[[], None]) -> None:
        """Add the states of SHARE before its barrier."""
        with m.State("MEET"):
            with m.If(self.arrived):
                m.d.comb += [self.pass_.eq(1), self.share.eq(1)]
                m.d.sync += self.shared.eq(0)
                m.next = "TABLE"
            unless_failed()
        with m.State("TABLE"):
            m.d.comb += self.tabling.eq(1)
            with m.If(self.tabled):
                m.d.comb += self.arrive.eq(1)
                m.next = "BARRIER"
            unless_failed()

    def _size(self, m: Module, listed: Value, flows: Value) -> None:
        """Check sizes, and keep those of the rows: while they flow, a further part has rows of the same size."""
        config, rows, front = self.config, self.rows, self._front
        flit = config.width(self.data_width)
        scatter, reduce = (front.view(opcode) for opcode in (Opcode.SCATTER, Opcode.REDUCE))
        f_out = Signal(16)
        granules = ((f_out - 1) >> _ELEMENTS_OF_GRANULE) + 1
        m.d.sync += f_out.eq(Mux(front.opcode == Opcode.REDUCE, reduce.f_out, scatter.f_out))
        sets = ((front.opcode == Opcode.SCATTER) & ~flows) | (front.opcode == Opcode.REDUCE)
        with m.If(front.start & sets):
            m.d.sync += [
                rows.stride.eq(granules * (8 * ROW_BYTES // self.data_width)),
                rows.last_beat.eq((f_out - 1) >> exact_log2(self.data_width // VALUE_BITS)),
                rows.last_flit.eq((f_out - 1) >> exact_log2(flit // VALUE_BITS)),
                rows.elements.eq(f_out),
                rows.base.eq(front.beats(Opcode.SCATTER, "combined", self.data_width)),
                self.last_sum_flit.eq((f_out - 1) >> exact_log2(flit // PARTIAL_BITS)),
            ]
        width = Check((f_out == 0) | (f_out > config.max_out), f_out)
        same = Check(flows & (f_out != rows.elements), f_out)
        tiles = {opcode: front.view(opcode).tiles for opcode in (Opcode.LIST, Opcode.SCATTER)}
        ring = {opcode: Check(count != self.chiplets, count) for opcode, count in tiles.items()}
        # A command that ends with the pass would wait for rows that the command behind it makes.
        follows = Check(scatter.follows & ~(self.reports & (scatter.more | scatter.beside)), scatter.follows)
        unlisted = Check(~listed, Opcode.SCATTER, Error.BAD_OPCODE)
        checks: dict[Opcode, tuple[Check, ...]] = {
            Opcode.LIST: (ring[Opcode.LIST],),
            Opcode.SCATTER: (width, unlisted, ring[Opcode.SCATTER], same, follows),
            Opcode.REDUCE: (width,),
            Opcode.BARRIER: (),
        }
        if self.divided:
            chiplets = front.view(Opcode.SHARE).tiles
            checks[Opcode.SHARE] = (Check(chiplets != self.chiplets, chiplets),)
            for opcode in (Opcode.SCATTER, Opcode.REDUCE):
                checks[opcode] = (Check(self.shared, opcode, Error.BAD_OPCODE), *checks[opcode])
        for opcode, others in checks.items():
            # Another part may be made by the same COMBINE.
            vain = self.expects & ~scatter.follows if opcode == Opcode.SCATTER else self.expects
            checks[opcode] = (Check(vain, opcode, Error.BAD_OPCODE), *others)
        refuse(m, front, checks)

    def _request(self, m: Module, asks: Value, asked: Value) -> None:
        """Make each request once a command."""
        front, hubs, shares = self._front, self.hubs, self.shares
        reduce = front.view(Opcode.REDUCE)
        m.d.comb += [
            hubs.payload.address.eq(front.words(Opcode.REDUCE, "hub_homes")),
            hubs.payload.words.eq(reduce.hub_count),
            shares.payload.offsets.eq(front.words(Opcode.REDUCE, "offsets")),
            shares.payload.array.eq(front.words(Opcode.REDUCE, "edges")),
            shares.payload.words.eq(reduce.edge_count),
            shares.payload.rows.eq(reduce.hub_count),
            shares.payload.tiles.eq(1),
        ]
        for n, request in enumerate((hubs, shares)):
            m.d.comb += request.valid.eq(asks[n] & ~asked[n])
            with m.If(request.valid & request.ready):
                m.d.sync += asked[n].eq(1)
