"""Configurations of chiplets with community PEs."""

from collections.abc import Mapping
from typing import Any

from hw.community.config import MachineConfig
from hw.community.formats import CommunityConfig
from hw.islands.config import LocatorConfig

__all__ = ["machine"]


def machine(
    *, community: Mapping[str, Any] | None = None, locator: Mapping[str, Any] | None = None, **sizes: int
) -> MachineConfig:
    """Return a configuration from plain numbers."""
    return MachineConfig(CommunityConfig(**(community or {})), LocatorConfig(**(locator or {})), **sizes)
