"""The small parts of a chiplet side by side, so that their benches share one simulator for each configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.chiplet.factories import PARTS
from hw.pe.formats import PEConfig
from sim.harness import Result, parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec

__all__ = ["CONFIGURATIONS", "Part", "Parts", "begin", "config", "simulate_parts"]

#: Narrow, with every ratio of widths above 1; and the machine's.
CONFIGURATIONS = {
    "narrow": PEConfig(lanes=2, data_width=64, address_width=20, weight_rows=32, max_out=12),
    "wide": PEConfig(),
}


class Parts(wiring.Component):
    """Parts without any connection between them; the ports of each are a member with its name.

    Parameters
    ----------
    configuration
        Name in `CONFIGURATIONS`.
    parts
        Names in `PARTS`; default: all.
    """

    def __init__(self, configuration: str, parts: Iterable[str] = tuple(PARTS)) -> None:
        self.parts = {name: PARTS[name](CONFIGURATIONS[configuration]) for name in parts}
        super().__init__({name: Out(part.signature) for name, part in self.parts.items()})

    def elaborate(self, platform: object) -> Module:
        """Forward every port."""
        m = Module()
        for name, part in self.parts.items():
            m.submodules[name] = part
            ports = zip(part.signature.flatten(getattr(self, name)), part.signature.flatten(part), strict=True)
            for (_, member, outer), (_, _, inner) in ports:
                sink, source = (outer, inner) if member.flow is Out else (inner, outer)
                if not isinstance(Value.cast(sink), Const):
                    m.d.comb += Value.cast(sink).eq(source)
        return m


def config() -> PEConfig:
    """Return, inside the simulator, the sizes of the parts."""
    return CONFIGURATIONS[parameters()["configuration"]]


class Part:
    """A bench's view of one part: streams and plain ports by the part's own names.

    Attributes
    ----------
    bench
        The bench of all parts.
    component
        A part like the one under test.
    """

    def __init__(self, bench: Bench, name: str, component: Any) -> None:
        self.bench, self.name, self.component = bench, name, component
        self.random = bench.random
        self._codecs = {
            port: Codec(member.shape) for port, member in component.signature.members.items() if member.is_port
        }

    def port(self, name: str) -> str:
        """Full name of a port."""
        return f"{self.name}__{name}"

    def drive(self, port: str, words: Iterable[Any]) -> None:
        """As `Bench.drive`."""
        self.bench.drive(self.port(port), words)

    def expect(self, port: str, words: Iterable[Any]) -> None:
        """As `Bench.expect`."""
        self.bench.expect(self.port(port), words)

    def take(self, port: str) -> list[Any]:
        """Return a list that fills with the words of output stream `port`."""
        words: list[Any] = []
        self.bench.take(self.port(port), words.append)
        return words

    def pace(self, *, idle: dict[str, float] | None = None, stall: dict[str, float] | None = None) -> None:
        """Set the pace of some streams; the others keep theirs."""
        self.bench.pace(
            idle={self.port(port): chance for port, chance in (idle or {}).items()},
            stall={self.port(port): chance for port, chance in (stall or {}).items()},
        )

    def handle(self, port: str) -> Any:
        """Cocotb's handle of a port, or of a signal of a stream such as ``o__valid``."""
        return getattr(self.bench.dut, self.port(port))

    def set(self, port: str, value: Any) -> None:
        """Drive a plain input from the next edge on."""
        self.handle(port).value = self._codecs[port].pack(value)

    def get(self, port: str) -> Any:
        """Read a plain output."""
        return self._codecs[port].unpack(int(self.handle(port).value))

    async def pulse(self, port: str) -> None:
        """Raise a plain input of one bit for one cycle."""
        self.set(port, 1)
        await self.bench.edge
        self.set(port, 0)


async def begin(dut: Any, name: str, **pace: Any) -> Part:
    """Start the bench with all plain inputs 0 and return the view of one part.

    Parameters
    ----------
    dut
        cocotb's handle of the top.
    name
        Name of the part.
    pace
        As for `sim.harness.bench.start`.
    """
    design = Parts(**parameters())
    for path, part in design.parts.items():
        for port, member in part.signature.members.items():
            if member.is_port and member.flow is In:
                getattr(dut, f"{path}__{port}").value = 0
    return Part(await start(dut, design, **pace), name, design.parts[name])


def simulate_parts(configuration: str, bench: str, parts: Sequence[str] = tuple(PARTS)) -> Result:
    """Run a bench on the parts in one of the configurations.

    Parameters
    ----------
    configuration
        Name in `CONFIGURATIONS`.
    bench
        Dotted name of the module with the tests.
    parts
        Names of the parts that are built; the same for all benches, so that one build serves all.
    """
    return simulate(
        Parts(configuration, parts),
        bench,
        name=f"chiplet_parts_{configuration}",
        parameters={"configuration": configuration, "parts": list(parts)},
    )
