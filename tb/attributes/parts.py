"""Blocks of the attribute access with the source's sizes, by name and for the flows that know parameters as JSON."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.attribute_cache import AttributeCache
from hw.attributes.attribute_processor import AttributeProcessor
from hw.attributes.core import AttributeCore, CoreConfig
from hw.attributes.fill_unit import FillUnit
from hw.attributes.formats import AttributeConfig
from hw.attributes.id_table import IDTable
from hw.attributes.row_store import RowStore
from hw.attributes.row_writer import RowWriter
from hw.attributes.slot_keys import SlotKeys
from hw.attributes.target_address import TargetAddress
from tb.attributes import test_accelerator, test_sampler
from tb.attributes.sampler_bench import SamplerBench
from tb.models.simulate import simulate_with_memory
from tb.models.wrap import MemoryModel

__all__ = ["PARTS", "accelerator", "launch_accelerator", "launch_sampler", "part", "sampler"]

#: 200 and 30 entries of 512 bytes; IDs of a million nodes.
SOURCE = AttributeConfig()
#: Blocks that take an `AttributeConfig`.
PARTS: dict[str, Callable[[AttributeConfig], Any]] = {
    "id_table": IDTable,
    "attribute_cache": AttributeCache,
    "slot_keys": SlotKeys,
    "row_store": RowStore,
    "fill_unit": FillUnit,
    "target_address": TargetAddress,
    "row_writer": RowWriter,
    "attribute_processor": AttributeProcessor,
}


def part(name: str) -> Any:
    """Return a block with the source's sizes."""
    return PARTS[name](SOURCE)


def core() -> AttributeCore:
    """Return a core with the source's sizes."""
    return AttributeCore(CoreConfig(SOURCE))


def accelerator(cores: int) -> AttributeAccelerator:
    """Return the accelerator of its bench."""
    return AttributeAccelerator(test_accelerator.CORE, cores)


def launch_accelerator(component: AttributeAccelerator, parameters: dict[str, Any]) -> None:
    """Run the accelerator's bench."""
    with TemporaryDirectory() as directory:
        test_accelerator.launch(component, dict(parameters), Path(directory))


def sampler() -> SamplerBench:
    """Return the samplers of their bench."""
    return SamplerBench()


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
