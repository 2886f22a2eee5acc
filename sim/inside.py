"""The first module that a simulator loads: `sim.harness.run` names it to cocotb before the bench.

A short bench takes less time than loading it with all it imports, so this makes that faster.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

#: New objects after which Python looks for garbage. With its own 700 it goes through all modules again and again.
_COLLECTED = 50_000


class _Schema:
    """A schema that is taken for valid."""

    def __init__(self, schema: Any, catalog: Any) -> None:
        pass

    def validate(self) -> SimpleNamespace:
        return SimpleNamespace(valid=True)


def end_with_parent() -> None:
    """Let Linux end this simulator when the process that started it has been killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def without_schemas() -> None:
    """Stand in for jschon, which takes half as long to load as all of Amaranth.

    Amaranth checks with it that the schema of its own metadata is one. Nothing in a simulator uses metadata.
    """
    module: Any = ModuleType("jschon")
    module.JSONSchema, module.JSONSchemaError, module.create_catalog = _Schema, ValueError, lambda _: None
    sys.modules.setdefault("jschon", module)


if "COCOTB_TEST_MODULES" in os.environ:
    end_with_parent()
    gc.set_threshold(_COLLECTED)
    without_schemas()
    gc.freeze()  # what is loaded stays, so Python's end need not look for garbage in it
