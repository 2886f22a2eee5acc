"""Marks of tests."""

import os

import pytest

__all__ = ["full"]

#: Of what is left to ``make sim-full``: sizes and lengths beyond those that show every feature once.
full = pytest.mark.skipif(not os.environ.get("ATOLL_FULL"), reason="ATOLL_FULL is not set")
