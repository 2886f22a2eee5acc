"""Attribute processors and the player of requests: the design under test of `sim.attributes.trace_bench`."""

from amaranth import Elaboratable, Instance, Module, ResetInserter
from amaranth.hdl import ClockSignal, Const, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import ceil_log2

from hw.attributes.attribute_processors import processors_of
from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.read_arbiter import ReadArbiter

__all__ = ["TraceDesign"]

#: Read clients of the arbiter, at least two.
_CLIENTS = 2


class TraceDesign(wiring.Component):
    """Attribute processors side by side, of which one plays; read arbiter and trace player.

    Several in one design are built in a third of the time of as many designs. All but the chosen one are held in reset.

    Parameters
    ----------
    configs : AttributeConfig
        They differ in nothing but `policy`.
    count
        Number of attribute processors in each place, as of `AttributeProcessors`.

    Attributes
    ----------
    chosen : In
        Which one plays, constant from reset on; only where there are several.

    Raises
    ------
    ValueError
        If the streams of the processors differ.
    """

    def __init__(self, *configs: AttributeConfig, count: int = 1) -> None:
        self.configs = configs
        self._processors = [processors_of(each, count) for each in configs]
        config = configs[0]
        for other in configs:
            if (other.request, other.event, other.row) != (config.request, config.event, config.row):
                raise ValueError(f"configs must have the same streams, not {configs!r}")
        self._port = (config.address_width, config.data_width)
        self._clients = max(_CLIENTS, *(each.clients for each in self._processors))
        super().__init__(
            {
                **({"chosen": In(range(len(configs)))} if len(configs) > 1 else {}),
                "settings": In(AttributeSettings(config)),
                "play": In(1),
                "open": In(1),
                "idle_chance": In(8),
                "stall_chance": In(8),
                "flush": In(1),
                "quiet": Out(1),
                "done": Out(1),
                "played_cycles": Out(32),
                **flat_members("m_axi", Out(AXI4Signature(*self._port, ceil_log2(self._clients)))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect player and memory to the chosen processor."""
        m = Module()
        config = self.configs[0]
        m.submodules.arbiter = arbiter = ReadArbiter(*self._port, self._clients)
        connect_flat(m, self, "m_axi", arbiter.m_axi)
        request = Signal(config.request)
        event, response, row = (
            Signal(layout.size, name=name)
            for name, layout in (("event", config.event), ("response", config.response), ("row", config.row))
        )
        valid, ready, event_valid = Signal(), Signal(), Signal()
        response_valid, response_ready, row_valid, row_ready = (
            Signal(name=f"{stream}_{end}") for stream in ("response", "row") for end in ("valid", "ready")
        )
        chosen = self.chosen if len(self.configs) > 1 else Const(0, 1)
        processors = self._processors
        for n, processor in enumerate(processors):
            name = "processor" if len(processors) == 1 else f"processor_{processor.config.policy.name.lower()}"
            m.submodules[name] = processor if len(processors) == 1 else ResetInserter(chosen != n)(processor)
            m.d.comb += [
                processor.settings.eq(self.settings),
                processor.flush.eq(self.flush),
                processor.i.payload.eq(request),
            ]
        with m.Switch(chosen):
            for n, processor in enumerate(processors):
                with m.Case(n):
                    for client in range(processor.clients):
                        connect(m, processor.requests[client], arbiter.requests[client])
                        connect(m, arbiter.beats[client], processor.beats[client])
                    m.d.comb += [
                        self.quiet.eq(processor.idle),
                        processor.i.valid.eq(valid),
                        ready.eq(processor.i.ready),
                        event_valid.eq(processor.event_valid),
                        event.eq(processor.event),
                        response_valid.eq(processor.responses.valid),
                        processor.responses.ready.eq(response_ready),
                        response.eq(processor.responses.payload),
                        row_valid.eq(processor.rows.valid),
                        processor.rows.ready.eq(row_ready),
                        row.eq(processor.rows.payload),
                    ]
        m.submodules.player = Instance(
            "trace_player",
            p_ID_BITS=len(request.id),
            p_SLOT_BITS=len(request.slot),
            p_TAG_BITS=len(request.tag),
            p_EVENT_BITS=len(event),
            p_RESPONSE_BITS=len(response),
            p_ROW_BITS=len(row),
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            i_play=self.play,
            i_open=self.open,
            i_idle=self.idle_chance,
            i_stall=self.stall_chance,
            i_quiet=self.quiet,
            o_done=self.done,
            o_cycles=self.played_cycles,
            o_valid=valid,
            i_ready=ready,
            o_id=request.id,
            o_slot=request.slot,
            o_read=request.read,
            o_tag=request.tag,
            i_event_valid=event_valid,
            i_event_payload=event,
            i_response_valid=response_valid,
            o_response_ready=response_ready,
            i_response_payload=response,
            i_row_valid=row_valid,
            o_row_ready=row_ready,
            i_row_payload=row,
        )
        return m
