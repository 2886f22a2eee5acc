"""Configurations of chiplets with community PEs."""

from collections.abc import Mapping
from typing import Any

from hw.community.config import CommunityChipletConfig
from hw.community.formats import CommunityConfig
from hw.locator.config import LocatorConfig

__all__ = ["chiplet_config"]


def chiplet_config(
    *, community: Mapping[str, Any] | None = None, locator: Mapping[str, Any] | None = None, **sizes: int
) -> CommunityChipletConfig:
    """Return a configuration from plain numbers."""
    return CommunityChipletConfig(CommunityConfig(**(community or {})), LocatorConfig(**(locator or {})), **sizes)
