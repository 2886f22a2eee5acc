"""The one list of blocks: what `atoll generate`, `synth`, `formal`, `mutate` and `cover` know of.

A new block needs one entry in :data:`BLOCKS`. Parameters are keyword arguments of the factory and must be
representable in JSON, because the bench reads the same ones inside the simulator.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tb.harness import simulate


class UserError(Exception):
    """A request that cannot be carried out; shown as one line, exit status 2."""


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class Block:
    """One block and where its parts are.

    Attributes
    ----------
    name
        ``<area>.<block>``, as in ``hw/<area>/<block>.py``.
    factory
        ``module:callable`` that makes the component.
    parameters
        Keyword arguments with which it is generated and synthesised.
    bench
        Module with the cocotb tests; `None` where a larger block's bench covers it.
    bench_factory
        ``module:callable`` that makes the component as the bench wants it; default: `factory`.
    bench_parameters
        Keyword arguments of `bench_factory`, and what the bench's ``parameters()`` returns, for coverage.
    narrow
        The same for mutation: the narrowest legal configuration; default: `bench_parameters`.
    formal
        Module with ``PROOFS``; `None` without.
    synth
        Whether `synth all` includes it.
    testcase
        Names of the bench's tests that count; default: all.
    launch
        ``module:callable`` that runs the bench on a component, called as ``launch(component, parameters)``; needed
        where :func:`tb.harness.simulate` alone does not do, for example because of memories around the design.
    whole
        Whether coverage counts submodules; `False` for a block whose parts are blocks of this list themselves.
    """

    name: str
    factory: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    bench: str | None = None
    bench_factory: str | None = None
    bench_parameters: Mapping[str, Any] = field(default_factory=dict)
    narrow: Mapping[str, Any] | None = None
    formal: str | None = None
    synth: bool = True
    testcase: tuple[str, ...] | None = None
    launch: str | None = None
    whole: bool = True

    @property
    def module(self) -> str:
        """Name of its Verilog module."""
        return self.name.replace(".", "_")

    def make(self) -> Any:
        """Return the component as it is generated and synthesised."""
        return _load(self.factory)(**self.parameters)

    def make_for_bench(self, parameters: Mapping[str, Any]) -> Any:
        """Return the component as its bench wants it."""
        return _load(self.bench_factory or self.factory)(**parameters)

    def run_bench(self, parameters: Mapping[str, Any]) -> None:
        """Run the block's bench on the component with these `parameters`.

        Raises
        ------
        AssertionError
            If a test fails.
        """
        component = self.make_for_bench(parameters)
        if self.launch:
            _load(self.launch)(component, parameters)
        else:
            assert self.bench is not None, f"{self.name} has no bench"
            simulate(component, self.bench, name=self.module, parameters=parameters, testcase=self.testcase)


#: Every block, in the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="stream.queue",
        factory="hw.stream.queue:Queue",
        parameters={"shape": 32, "depth": 16},
        bench="tb.stream.test_queue",
        bench_factory="tb.stream.test_queue:queue",
        bench_parameters={"depth": 6, "storage": "block"},
        narrow={"depth": 4, "storage": "distributed"},
        formal="tb.stream.formal_queue",
    ),
    Block(
        name="stream.slice",
        factory="hw.stream.slice:Slice",
        parameters={"shape": 32},
        bench="tb.stream.test_slice",
        bench_factory="tb.stream.test_slice:slice_",
        bench_parameters={"width": 13},
        narrow={"width": 3},
        formal="tb.stream.formal_slice",
    ),
    Block(
        name="stream.arbiter",
        factory="hw.stream.arbiter:Arbiter",
        parameters={"shape": 32, "count": 4},
        bench="tb.stream.test_arbiter",
        bench_factory="tb.stream.test_arbiter:arbiter",
        bench_parameters={"count": 3},
        formal="tb.stream.formal_arbiter",
    ),
    Block(
        name="memory.fetcher",
        factory="hw.memory.fetcher:Fetcher",
        parameters={"data_width": 256, "depth": 128},
        formal="tb.memory.formal_fetcher",
    ),
    Block(
        name="memory.range_reader",
        factory="hw.memory.range_reader:RangeReader",
        parameters={"data_width": 256, "depth": 128},
    ),
    Block(
        name="memory.word_serialiser",
        factory="hw.memory.word_serialiser:WordSerialiser",
        parameters={"data_width": 256},
    ),
    Block(
        name="memory.read_arbiter",
        factory="hw.memory.read_arbiter:ReadArbiter",
        parameters={"data_width": 256, "clients": 4},
        formal="tb.memory.formal_read_arbiter",
    ),
    Block(
        name="memory.write_port",
        factory="hw.memory.write_port:WritePort",
        parameters={"data_width": 256},
    ),
    Block(
        # All of them at one port; measures the benches of the five above.
        name="memory.memory_side",
        factory="tb.memory.memory_bench:configured",
        parameters={"configuration": "narrow"},
        bench="tb.memory.test_memory_side",
        bench_parameters={"configuration": "narrow"},
        synth=False,
        launch="tb.memory.memory_bench:launch",
    ),
)


def find(name: str) -> list[Block]:
    """Return the block called `name`, all blocks of an area, or all blocks for ``all``.

    Raises
    ------
    UserError
        If there is none.
    """
    found = [block for block in BLOCKS if name in ("all", block.name, block.name.partition(".")[0])]
    if not found:
        raise UserError(f"no block {name!r}; known: all, {', '.join(block.name for block in BLOCKS)}")
    return found
