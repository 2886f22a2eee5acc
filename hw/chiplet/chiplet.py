"""A chiplet: an engine, the units beside it, and what they share: command list, memory port, counters."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMPLETION, LINE_BYTES, PAGE_BYTES, Error, Opcode
from hw.chiplet.command_reader import COMMANDS_AHEAD, CommandReader
from hw.chiplet.command_router import CommandRouter
from hw.chiplet.unit import Engine, Unit
from hw.contracts import struct
from hw.memory.axi import AXI4Signature, connect_flat, connect_manager, flat_members
from hw.memory.axi_merge import AXIMerge
from hw.memory.formats import line_address_width
from hw.memory.scratchpad import Scratchpad
from hw.memory.unit_port import ScratchPort, attach_unit
from hw.stream.black_box import black_boxes_of

__all__ = ["Chiplet"]


class Chiplet(wiring.Component):
    """Runs an image: reads its command list and hands each command to the unit that carries it out.

    Parameters
    ----------
    engine
        Carries out the commands of layers, and refuses those that no unit has.
    units
        What stands beside it, by name; none by default.

    Attributes
    ----------
    start : stream of line addresses (byte address / 64)
        Where an image lies.
    done : stream of `contracts.COMPLETION`
        How its run ended; one for each start.
    opcode, layer : Out(8)
        Command under way, `Opcode.NOP` between commands.
    working : Out
        Which of ``config.parts`` work in this cycle, for counters outside.
    m_axi_* : AXI4 manager
        The memory port. Each unit adds a bit to the engine's IDs.
    m_axi_1_*, m_axi_2_*, ... : AXI4 managers
        Further ports of the engine to the same memory, if it has any.

        The ``config.counters`` and the ``OUTER`` ports of units are ports of the chiplet, too; those that are
        interfaces with flat names.

    Raises
    ------
    ValueError
        If the memory ports of a unit and the engine differ.
    """

    def __init__(self, engine: Engine, units: Mapping[str, Unit] | None = None) -> None:
        self.engine, self.config = engine, engine.config
        self.units: dict[str, Any] = dict(units or {})
        for name, unit in self.units.items():
            if unit.port != engine.port:
                raise ValueError(f"{name} must have a memory port of {engine.port} bits, the engine's, not {unit.port}")
        #: Domains, in the order of ports of a generated module: a unit can have others beside its own.
        self.domains = tuple(
            dict.fromkeys(["sync", *(name for unit in self.units.values() for name in getattr(unit, "domains", ()))])
        )
        #: Bits of the IDs where a unit's port meets those of the engine and the units before it.
        self._id_widths: list[int] = []
        id_width = engine.id_width
        for unit in self.units.values():
            self._id_widths.append(max(id_width, unit.id_width))
            id_width = self._id_widths[-1] + 1
        outer: dict[str, wiring.Member] = {}
        for unit in self.units.values():
            for name in getattr(unit, "OUTER", ()):
                member = _members(unit)[name]
                outer |= flat_members(name, member) if member.is_signature else {name: member}
        super().__init__(
            {
                "start": In(stream.Signature(line_address_width(engine.port[0]))),
                "done": Out(stream.Signature(struct(COMPLETION))),
                "opcode": Out(8),
                "layer": Out(8),
                "working": Out(len(self.config.parts)),
                **{name: Out(32) for name in self.config.counters},
                **flat_members("m_axi", Out(AXI4Signature(*engine.port, id_width))),
                **self._further_members(id_width),
                **outer,
            }
        )

    def _further_members(self, id_width: int) -> dict[str, wiring.Member]:
        """Return the memory ports of the engine beside its first one, with IDs as wide as that one's."""
        self._further = AXI4Signature(*self.engine.port, id_width)
        return {
            name: member
            for n in range(1, len(self.engine.further) + 1)
            for name, member in flat_members(f"m_axi_{n}", Out(self._further)).items()
        }

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left to be generated apart, by the name of their module."""
        return {
            name: part for unit in (self.engine, *self.units.values()) for name, part in black_boxes_of(unit).items()
        }

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the command reader, the engine and the units with each other and the ports."""
        m = Module()
        m.submodules.command_reader = reader = CommandReader(*self.engine.port, ahead=COMMANDS_AHEAD)
        m.submodules.engine = self.engine
        for name, unit in self.units.items():
            m.submodules[name] = unit
        self._connect_commands(m, reader)
        self._connect_memory(m, reader)
        self._connect_ports(m)
        return m

    def _connect_commands(self, m: Module, reader: CommandReader) -> None:
        """Hand commands out and answers back."""
        engine: Any = self.engine
        units = self.units.values()
        m.submodules.command_router = router = CommandRouter([unit.OPCODES for unit in units])
        connect(m, flipped(self.start), reader.i)
        self._complete(m, reader)
        connect(m, reader.command, router.i)
        connect(m, router.executed, reader.executed)
        for n, unit in enumerate((engine, *units)):
            connect(m, router.o[n], unit.command)
            connect(m, unit.executed, router.answers[n])
            m.d.comb += unit.base.eq(reader.base)
        beside = router.opcode != Opcode.NOP
        m.d.comb += [
            self.opcode.eq(Mux(beside, router.opcode, engine.opcode)),
            self.layer.eq(Mux(beside, router.layer, engine.layer)),
            engine.starts.eq(self.start.valid & self.start.ready),
        ]
        m.d.comb += engine.exchanging.eq(Cat(u.exchanging for u in units if hasattr(u, "exchanging")).any())
        ring: Any = next((unit for unit in units if hasattr(unit, "halo")), None)
        if ring is not None and hasattr(engine, "halo"):
            m.d.comb += [engine.halo.eq(ring.halo), engine.sending.eq(ring.sending), ring.made.eq(engine.made)]
        for unit in units:
            stop, completion = getattr(unit, "stop", None), self.done.payload
            if stop is not None:
                m.d.comb += [
                    stop.valid.eq(self.done.valid & (completion.error != Error.NONE)),
                    stop.payload.code.eq(completion.error),
                    stop.payload.info.eq(completion.info),
                ]

    def _complete(self, m: Module, reader: CommandReader) -> None:
        """Say how a run ended when no unit carries out a command of it any more."""
        background = Signal()
        m.d.comb += self.done.payload.eq(reader.o.payload)
        for unit in self.units.values():
            if hasattr(unit, "background"):
                m.d.comb += unit.ending.eq(reader.o.valid)
                with m.If(unit.background):
                    m.d.comb += background.eq(1)
                with m.If((reader.o.payload.error == Error.NONE) & (unit.late.error != Error.NONE)):
                    m.d.comb += self.done.payload.eq(unit.late)
        m.d.comb += [
            self.done.valid.eq(reader.o.valid & ~background),
            reader.o.ready.eq(self.done.ready & ~background),
        ]

    def _connect_memory(self, m: Module, reader: CommandReader) -> None:
        """Merge the units' memory ports with the engine's, one after another."""
        engine = self.engine
        scratch = self._scratch(m, reader)
        merged = AXI4Signature(*engine.port, engine.id_width).create(path=("engine_axi",))
        # Commands are read while others go on that have nothing to do with it.
        window = next((unit.window for unit in self.units.values() if hasattr(unit, "window")), None)
        attach_unit(m, engine, "engine", merged, silent=(reader,), scratch=scratch[0], window=window)
        shared = next((unit.shared_lines for unit in self.units.values() if hasattr(unit, "shared_lines")), None)
        for n, ((name, unit), id_width) in enumerate(zip(self.units.items(), self._id_widths, strict=True), start=1):
            m.submodules[f"{name}_merge"] = merge = AXIMerge(*engine.port, id_width)
            connect_manager(m, merged, merge.i[0])
            lines, silent = shared if getattr(unit, "READS_GRAPHS", False) else None, getattr(unit, "readers", ())
            attach_unit(m, unit, name, merge.i[1], silent=silent, scratch=scratch[n], window=lines)
            merged = merge.o
        connect_flat(m, self, "m_axi", merged)
        for n, port in enumerate(engine.further, start=1):
            axi = self._further.create(path=(f"engine_axi_{n}",))
            attach_unit(m, port, f"engine_{n}", axi, scratch=scratch[len(self.units) + n])
            connect_flat(m, self, f"m_axi_{n}", axi)

    def _scratch(self, m: Module, reader: CommandReader) -> Sequence[ScratchPort | None]:
        """Return ports of the scratchpad, or None if there is none: of the engine, each unit, each further port."""
        lines, count = self.config.scratch_lines, 1 + len(self.units) + len(self.engine.further)
        if not lines:
            return [None] * count
        m.submodules.scratchpad = pad = Scratchpad(lines, self.engine.port[1], count)
        first, end, page = Signal.like(reader.base), Signal.like(reader.base), exact_log2(PAGE_BYTES // LINE_BYTES)
        # Bursts do not cross pages of the memory, so none is divided where the scratchpad ends at one. An image that
        # leaves its lines to memory has none there.
        m.d.sync += first.eq(reader.scratch)
        m.d.comb += end.eq(Mux(reader.scratches, Cat(Const(0, page), (first + lines)[page:]), first))
        return [ScratchPort(pad, n, first, end) for n in range(count)]

    def _connect_ports(self, m: Module) -> None:
        """Lead counters, and the ports of units that belong outside, to the chiplet's."""
        m.d.comb += self.working.eq(self.engine.working)
        m.d.comb += [getattr(self, name).eq(getattr(self.engine, name)) for name in self.config.counters]
        for unit in self.units.values():
            for name in getattr(unit, "OUTER", ()):
                member, inner = _members(unit)[name], getattr(unit, name)
                if member.is_signature:
                    connect_flat(m, self, name, inner)
                elif member.flow == Out:
                    m.d.comb += getattr(self, name).eq(inner)
                else:
                    m.d.comb += inner.eq(getattr(self, name))


def _members(unit: Any) -> Any:
    """Return the ports of a unit by name."""
    return unit.signature.members
