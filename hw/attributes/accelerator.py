"""Attribute accelerator: command processor, cores, and their DMA through one memory port (A9)."""

from amaranth import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from contracts import COMMAND_BYTES, COMPLETION
from hw.attributes.command_processor import CommandProcessor
from hw.attributes.core import AttributeCore, AttributeCoreConfig
from hw.contracts import struct
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.axi_merge import AXIMerge
from hw.memory.formats import line_address_width
from hw.memory.unit_port import UNIT_ID_WIDTH, attach_unit
from hw.stream.black_box import BlackBox

__all__ = ["CORE_MODULE", "AttributeAccelerator"]

#: Name of the cores' module where it is generated apart.
CORE_MODULE = "attribute_core"


class AttributeAccelerator(wiring.Component):
    """Cores with an attribute RAM each, fed by one queue of commands.

    Parameters
    ----------
    config : AttributeCoreConfig
    cores
        A power of two, 1..16.
    once
        Leave the cores as black boxes; their module is generated apart, see `modules`.

    Attributes
    ----------
    command : stream of unsigned(512)
        From the host.
    completion : stream of `COMPLETION`
        To the host.
    base : In
        Line address that addresses in commands count from.
    busy : Out
        A bit for each core.
    m_axi_* : AXI4 manager
        The memory port.

    Raises
    ------
    ValueError
        If `cores` is out of its range.
    """

    def __init__(self, config: AttributeCoreConfig | None = None, cores: int = 2, *, once: bool = False) -> None:
        if not 1 <= cores <= 16 or cores & (cores - 1):
            raise ValueError(f"cores must be a power of two in 1..16, not {cores!r}")
        self.config, self.cores, self.once = config or AttributeCoreConfig(), cores, once
        attribute = self.config.attribute
        self._port = (attribute.address_width, attribute.data_width)
        id_width = UNIT_ID_WIDTH + ceil_log2(cores)
        super().__init__(
            {
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "completion": Out(stream.Signature(struct(COMPLETION))),
                "base": In(line_address_width(attribute.address_width)),
                "busy": Out(cores),
                **flat_members("m_axi", Out(AXI4Signature(*self._port, id_width))),
            }
        )

    def core(self) -> AttributeCore:
        """Return one of the cores, which are all alike."""
        return AttributeCore(self.config, background=False)

    @property
    def modules(self) -> dict[str, AttributeCore]:
        """Components that are generated apart, by the name of their module."""
        return {CORE_MODULE: self.core()} if self.once else {}

    def elaborate(self, platform: object) -> Elaboratable:
        """Merge the cores' ports in pairs."""
        m = Module()
        m.submodules.commands = commands = CommandProcessor(self.cores)
        connect(m, flipped(self.command), commands.i)
        connect(m, commands.o, flipped(self.completion))
        m.d.comb += self.busy.eq(commands.busy)
        ports = []
        for n in range(self.cores):
            core = self.core()
            m.submodules[f"core_{n}"] = BlackBox(core, CORE_MODULE) if self.once else core
            connect(m, commands.commands[n], core.command)
            connect(m, core.executed, commands.executed[n])
            m.d.comb += core.base.eq(self.base)
            port = AXI4Signature(*self._port, UNIT_ID_WIDTH).create(path=(f"port_{n}",))
            attach_unit(m, core, f"core_{n}", port)
            ports.append(port)
        id_width = UNIT_ID_WIDTH
        while len(ports) > 1:
            merged = []
            for n in range(0, len(ports), 2):
                m.submodules[f"merge_{id_width}_{n}"] = merge = AXIMerge(*self._port, id_width)
                for side in range(2):
                    connect(m, ports[n + side], merge.i[side])
                merged.append(merge.o)
            ports, id_width = merged, id_width + 1
        connect_flat(m, self, "m_axi", ports[0])
        return m
