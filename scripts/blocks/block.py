"""A block: what it is made by, and where its parts are."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts.errors import InputError
from sim.harness import simulate

__all__ = ["Block"]


def _load(path: str) -> Any:
    """Return the module, or what is called ``module:name``; benches are loaded only here, by name."""
    module, _, name = path.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "tb":
            raise
        raise InputError(path, "benches are not installed", "the folder tb/ beside hw/") from None
    return getattr(loaded, name) if name else loaded


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
        where :func:`sim.harness.simulate` alone does not do, for example because of memories around the design.
    shown
        Parameters to write at the top of the generated file; default: `parameters`.
    measures
        Blocks without a bench of their own which this one's bench measures. A part that another block's bench
        measures counts there, in coverage and mutation, and not in the blocks that contain it.
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
    shown: Mapping[str, Any] | None = None
    measures: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Its source, from the project's root."""
        return f"hw/{self.name.replace('.', '/')}.py"

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

    def proofs(self) -> list[Any]:
        """Return its proofs; none if it has no module of them."""
        return list(_load(self.formal).PROOFS) if self.formal else []

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
            _load(self.bench)
            simulate(component, self.bench, name=self.module, parameters=parameters, testcase=self.testcase)
