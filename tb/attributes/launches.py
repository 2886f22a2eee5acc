"""How the benches of samplers and accelerator are run for coverage and mutation."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hw.attributes.accelerator import AttributeAccelerator
from sim.attributes.sampler_bench import SamplerBench
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.attributes import test_accelerator, test_sampler

__all__ = ["launch_accelerator", "launch_sampler"]


def launch_accelerator(component: AttributeAccelerator, parameters: dict[str, Any]) -> None:
    """Run the accelerator's bench."""
    with TemporaryDirectory() as directory:
        test_accelerator.launch(component, dict(parameters), Path(directory))


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
