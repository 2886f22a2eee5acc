"""Images as jobs of a simulated machine, and the outcome of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from contracts import Error, RegionKind
from golden.image_format import Image, Region
from sim.harness.expected import expect_cycles
from sim.models.memory import MemorySettings
from sim.runner.host import Run

if TYPE_CHECKING:
    from golden.model.layer import Int16Array
    from golden.model.network import LayerResult, Problem
    from sim.runner.machine import Machine

__all__ = ["Expected", "Job", "Outcome", "Settings", "mismatches"]


@dataclass(frozen=True, kw_only=True)
class Settings(MemorySettings):
    """How all memories behave during a run, and what goes wrong.

    Where chiplets have clocks of their own, cycles are those of the slowest one unless a line below says otherwise.

    Attributes
    ----------
    read_errors, write_errors
        First and last byte address that fails, or None.
    failing
        Position of the chiplet whose memory has these errors.
    origin
        Byte address at which the memories, and so the images, begin; a multiple of 4,096.
    reset
        Whether to reset before the run.
    settle
        Cycles between reset and start, after the memories are filled.
    late
        Cycles of its own after the others until a chiplet is started, by position.
    reset_after
        Cycles after which all are reset and the run is begun again, or 0.
    reset_one
        A chiplet of a ring, and the cycles after which it alone is reset; or None. The third number is 0 if it stays
        idle then, else the cycles until it begins again.
    limit
        Cycles after which a missing completion is an error.
    periods
        Periods of the chiplets' own clocks by position, even numbers of ps; those that are not given are
        `sim.runner.clocks.PERIOD`.
    """

    read_errors: tuple[int, int] | None = None
    write_errors: tuple[int, int] | None = None
    failing: int = 0
    origin: int = 0
    reset: bool = True
    settle: int = 0
    late: Mapping[int, int] = field(default_factory=dict)
    reset_after: int = 0
    reset_one: tuple[int, int, int] | None = None
    limit: int = 20_000_000
    periods: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job left.

    Attributes
    ----------
    runs
        Run of every chiplet that is used; of a job that was reset in the middle, the second one.
    links
        Counters of their links (`sim.runner.top.LINK_COUNTERS`); empty without a ring.
    results
        int16 [vertices, f_out] by layer, all chiplets together; results that stayed on the chip are missing.
    combined
        int16 [vertices, f_out] of the last layer, in the working space of a gather chiplet alone that computes the
        layer in one block; else None.
    cut_off
        Whether ``reset_after`` came before the end of the first run.
    """

    runs: list[Run]
    links: list[dict[str, int]]
    results: dict[int, Int16Array]
    combined: Int16Array | None
    cut_off: bool

    @property
    def cycles(self) -> int:
        """Cycles from the first start to the last completion, of the slowest chiplet where these differ."""
        ended, began = (
            max(run.ended * run.period for run in self.runs),
            min(run.began * run.period for run in self.runs),
        )
        return -((began - ended) // max(run.period for run in self.runs))

    @property
    def errors(self) -> list[int]:
        """Error of every chiplet's completion."""
        return [run.completion["error"] for run in self.runs]

    @property
    def run(self) -> Run:
        """Run of a machine with one chiplet."""
        (run,) = self.runs
        return run


@dataclass(frozen=True, eq=False)
class Expected:
    """What a run must leave, where the simulation itself judges.

    Attributes
    ----------
    errors, infos
        Of every chiplet's completion: one error, or a list of those that are possible; an info of None may be anything,
        possible infos may depend on the error.
    results
        int16 [vertices, f_out] of every layer, or None.
    links
        Counters of every link by name, or None.
    cycles
        Name in ``tb/expected.toml``, or None.
    phases
        Layer and name of every chiplet's commands, or None.
    """

    errors: Sequence[Error | list[Error]]
    infos: Sequence[int | dict[int, list[int] | None] | None]
    results: Sequence[Int16Array] | None = None
    links: dict[str, list[int]] | None = None
    cycles: str | None = None
    phases: list[list[tuple[int, str]]] | None = None

    def judge(self, outcome: Outcome) -> None:
        """Compare an outcome with it.

        Raises
        ------
        AssertionError
            If something differs.
        """
        for run, errors, infos in zip(outcome.runs, self.errors, self.infos, strict=True):
            error, info = run.completion["error"], run.completion["info"]
            assert error in (errors if isinstance(errors, list) else [errors]), outcome.errors
            possible = infos[error] if isinstance(infos, dict) else infos
            possible = [possible] if isinstance(possible, int) else possible
            assert possible is None or info in possible, (run.completion, possible)
        if self.phases is not None:
            assert [[(phase.layer, phase.opcode) for phase in run.phases] for run in outcome.runs] == self.phases
        for name, values in (self.links or {}).items():
            assert [link[name] for link in outcome.links] == values, (name, outcome.links)
        for layer, rows in enumerate(self.results or ()):
            assert np.array_equal(outcome.results[layer], rows), layer
        if self.cycles:
            expect_cycles(self.cycles, outcome.cycles)


@dataclass(frozen=True, eq=False)
class Job:
    """An image for each chiplet that is used, how the memories behave, and what must come out if no one else looks."""

    images: Sequence[Image]
    settings: Settings = Settings()
    expected: Expected | None = None

    @property
    def size(self) -> int:
        """Bytes of a memory that holds every image."""
        return max(len(image.data) for image in self.images)

    async def run(self, machine: Machine) -> Outcome:
        """Load, run and read back, inside the simulator.

        Raises
        ------
        AssertionError
            If the outcome is not as expected, or as `sim.runner.machine.Machine.run`.
        """
        data, settings = [image.data for image in self.images], self.settings
        await machine.configure(settings, len(data))
        await machine.load(data, settings.settle)
        found = await machine.run(settings, len(data))
        if cut_off := found is None:
            await machine.reset()
            await machine.load(data)
            found = await machine.run(Settings(limit=settings.limit), len(data))
        assert found is not None
        outcome = await self.outcome(machine, *found, cut_off)
        if self.expected:
            self.expected.judge(outcome)
        return outcome

    async def outcome(
        self, machine: Machine, runs: list[Run], links: list[dict[str, int]], cut_off: bool = False
    ) -> Outcome:
        """Read the results of a run back, inside the simulator."""
        results = {layer: await self._rows(machine, layer) for layer in self.kept}
        combined = await self._rows(machine, None) if machine.leaves_combined and self._combined else None
        return Outcome(runs, links, results, combined, cut_off)

    @property
    def kept(self) -> list[int]:
        """Layers whose results lie in memory on all chiplets; the scratchpads of some may have room for their rows."""
        kinds, (first, *_) = (RegionKind.HIDDEN, RegionKind.RESULTS), self.images
        on_chip = {region.layer for image in self.images for region in image.scratch
                   if region.kind in kinds and region.rows}  # fmt: skip
        return [region.layer for region in first.regions if region.kind in kinds and region.layer not in on_chip]

    @property
    def _combined(self) -> Region | None:
        """Region of the last layer's combined rows: in the working space, at the distance of its results.

        Of a layer that is computed in blocks of columns, none is left: the working space has those of the last block.
        """
        (image, *_) = self.images
        last = image.results_region(image.header["layers"] - 1)
        commands = (command.fields for command in image.commands if command.fields["layer"] == last.layer)
        if any(fields.get("first_granule") for fields in commands):
            return None
        scratch = image.scratch
        spaces = (space for space in image.regions if space.kind == RegionKind.COMBINED and space not in scratch)
        return next((replace(last, line=space.line) for space in spaces), None)

    async def _rows(self, machine: Machine, layer: int | None) -> Int16Array:
        """Return the rows of a layer from all memories; of None, those of `_combined`."""
        parts = []
        for image, host in zip(self.images, machine.hosts, strict=False):
            region = self._combined if layer is None else image.results_region(layer)
            assert region is not None
            parts.append(image.rows(region, await host.memory.dump(region.address, region.bytes)))
        return np.concatenate(parts)


def mismatches(problem: Problem | Sequence[LayerResult], outcome: Outcome) -> list[str]:
    """Return where an outcome differs from the golden model or its results, a line each; none if it is bit-exact."""
    # The simulator imports this module as well, and has no use for the golden model: that takes long to load.
    from golden.compare import layer_differences, value_differences
    from golden.model.network import Problem, infer

    exact = infer(problem) if isinstance(problem, Problem) else problem
    lines = layer_differences(exact, outcome.results)
    if outcome.combined is not None:
        what = f"layer {len(exact) - 1}, combined"
        lines += value_differences(what, exact[-1].combined, outcome.combined, ("vertex", "feature"))
    return lines
