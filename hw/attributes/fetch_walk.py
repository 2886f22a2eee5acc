"""Fetch walk: carries FETCH commands from their operands to their answer (A9)."""

from amaranth import Const, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.hdl import ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMMAND_BYTES, Opcode, Targets
from hw.attributes.access_operands import access_operands, graph_checks
from hw.attributes.formats import AccessSettings, AttributeConfig, AttributeCoreConfig
from hw.attributes.node_reader import NodeRange
from hw.command.checks import Check, refuse
from hw.command.front_end import CommandFrontEnd
from hw.graph.formats import ErrorReport
from hw.memory.formats import line_address_width
from hw.memory.unit_port import when_written

__all__ = ["FetchSettings", "FetchWalk"]


class FetchSettings(data.StructLayout):
    """Operands of a FETCH, relocated.

    ``access``: an `AccessSettings`. ``nodes``: VIDs whose attributes are fetched, or before `begin` the table of
    replicas. ``report``: line of the counts. ``streamed``: rows go to the window; 0 while no FETCH is carried out.
    """

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__(
            {
                "access": AccessSettings(config),
                "nodes": NodeRange(config),
                "report": unsigned(line_address_width(config.address_width)),
                "streamed": 1,
            }
        )


class FetchWalk(wiring.Component):
    """Has a FETCH checked and carried out, and waits until its rows and its report are in memory.

    A FETCH whose rows go to the window is answered when this is open, and goes on until all of them have been read.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    command, executed, base, errors
        As of `CommandFrontEnd`. Sources of errors: reads, writes.
    settings : Out
        `FetchSettings`, constant from `begin` until `busy` is 0, but ``nodes``, which is taken with `begin` or `load`.
    idle : In(1)
        The attribute processor has no request.
    flush : Out(1)
        The attribute processor forgets all attributes.
    load, loading : Out(1)
        The table of replicas begins to be read, and is read.
    loaded : In(1)
        Its last entry has been read.
    begin : Out(1)
        The VIDs are read, and counting starts.
    settled : In(1)
        All requests have ended, and all rows have been handed on; from the cycle after `begin`.
    report : Out(1)
        The report is written.
    reported : In(1)
        Its last beat goes out.
    writing : In(1)
        Beats are on their way to memory, or have no answer yet.
    busy : Out(1)
        A FETCH is carried out, answered or not.
    """

    #: Sources of errors.
    SOURCES = 2

    def __init__(self, config: AttributeCoreConfig) -> None:
        self.config = config
        attribute = config.attribute
        super().__init__(
            {
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "base": In(line_address_width(attribute.address_width)),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(self.SOURCES),
                "settings": Out(FetchSettings(attribute)),
                "idle": In(1),
                "flush": Out(1),
                "load": Out(1),
                "loading": Out(1),
                "loaded": In(1),
                "begin": Out(1),
                "settled": In(1),
                "report": Out(1),
                "reported": In(1),
                "writing": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk: flush, read the table of replicas, fetch, report, wait for writes."""
        m = Module()
        attribute, settings = self.config.attribute, self.settings
        m.submodules.front = front = CommandFrontEnd({Opcode.FETCH: 2}, attribute.address_width, self.SOURCES)
        fetch = front.view(Opcode.FETCH)
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        for source, end in zip(self.errors, front.errors, strict=True):
            connect(m, flipped(source), end)
        most = 1 << attribute.tag_bits
        # Only a core with a window has rows for PEs.
        window = [] if self.config.window else [Check(fetch.streamed, fetch.streamed)]
        known = Targets.AHEAD if self.config.ahead else Targets.POSITION
        planned = Check(fetch.targets > known, fetch.targets)
        copies = [] if attribute.replicas else [Check(fetch.replicas != 0, fetch.replicas)]
        checks = [*graph_checks(attribute, fetch), Check(fetch.count > most, fetch.count), *window, planned, *copies]
        refuse(m, front, {Opcode.FETCH: checks})
        m.d.comb += [
            front.base.eq(self.base),
            # Addresses wrap round the end of the memory.
            front.unused.eq(~0),
            *access_operands(front, Opcode.FETCH, attribute, settings.access),
            settings.report.eq(front.line(Opcode.FETCH, "report")),
            settings.streamed.eq(self.busy & fetch.streamed),
        ]
        replicated = self._replicate(m, front)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(front.start):
                    m.next = "FLUSH"
            with m.State("FLUSH"):
                with m.If(self.idle):
                    m.d.comb += [
                        self.flush.eq(fetch.flush),
                        self.load.eq(fetch.flush & replicated),
                        self.begin.eq(~self.load),
                    ]
                    m.next = "FETCH"
                    with m.If(self.load):
                        m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += self.loading.eq(1)
                with m.If(self.loaded):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += self.begin.eq(1)
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += front.early.eq(settings.streamed)
                with m.If(self.settled):
                    m.next = "REPORT"
            with m.State("REPORT"):
                m.d.comb += self.report.eq(1)
                with m.If(self.reported):
                    m.next = "WRITE"
                    with m.If(settings.streamed):
                        # The run that waits for what is written goes on; a sampler beside it may never stop writing.
                        m.d.comb += front.done.eq(1)
                        m.next = "IDLE"
            with when_written(m, self.writing):
                m.d.comb += front.done.eq(1)
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _replicate(self, m: Module, front: CommandFrontEnd) -> ValueLike:
        """Say what is read first, and whether there are copies; they are used if all of their table could be read."""
        attribute, settings, fetch = self.config.attribute, self.settings, front.view(Opcode.FETCH)
        cells = attribute.replicas
        nodes, table = front.words(Opcode.FETCH, "nodes"), front.words(Opcode.FETCH, "replicas")
        if not cells:
            m.d.comb += [settings.nodes.address.eq(nodes), settings.nodes.count.eq(fetch.count)]
            return Const(0)
        replicated, whole = Signal(), Signal()
        with m.If(self.load):
            m.d.sync += whole.eq(1)
        with m.Elif(self.errors[0].valid & self.loading):
            m.d.sync += whole.eq(0)
        m.d.comb += [
            replicated.eq(fetch.replicas != 0),
            settings.nodes.address.eq(Mux(self.load, table, nodes)),
            settings.nodes.count.eq(Mux(self.load, cells, fetch.count)),
            settings.access.attribute.replicas.eq(table + cells),
            settings.access.attribute.replicated.eq(replicated & whole),
        ]
        return replicated
