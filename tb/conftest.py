"""Set-up of every pytest run."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let benches make components only to ask for their shapes or to see them refused."""
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")
