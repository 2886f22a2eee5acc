"""How the benches of samplers and accelerator are run for coverage and mutation."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sim.attributes.core_bench import CoreBench
from sim.attributes.sampler_bench import SamplerBench
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.attributes import test_accelerator, test_core, test_sampler

__all__ = ["launch_accelerator", "launch_sampler"]


def launch_accelerator(component: CoreBench, parameters: dict[str, Any]) -> None:
    """Run the accelerator's bench, and that of a core beside an engine, on one core."""
    with TemporaryDirectory() as directory:
        bench = f"{test_core.__name__},{test_accelerator.__name__}"
        test_core.launch(component, {"cores": 1, **parameters}, Path(directory), bench)


def launch_sampler(component: SamplerBench, parameters: dict[str, Any]) -> None:
    """Run the samplers' bench."""
    with TemporaryDirectory() as directory:
        simulate_with_memory(
            component,
            test_sampler.__name__,
            Path(directory),
            name="sampler",
            memories={"m_axi": MemoryModel(depth=test_sampler.MEMORY // 8)},
            parameters=dict(parameters),
        )
