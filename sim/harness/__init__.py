"""What everything simulated shares: building with Verilator, running cocotb, streams, proofs.

A bench is one file ``tb/<area>/test_<block>.py``. Outside the simulator its pytest functions call
:func:`simulate`; inside the simulator its coroutines call :func:`start`. ``docs/verification.md`` shows how.
"""

import os
import warnings

from sim.harness.build import ROOT, Build, BuildOptions, build
from sim.harness.ports import StreamPort, stream_ports
from sim.harness.run import CLOCK_NS, Result, parameters, simulate

__all__ = [
    "CLOCK_NS",
    "ROOT",
    "Build",
    "BuildOptions",
    "Result",
    "StreamPort",
    "build",
    "parameters",
    "simulate",
    "stream_ports",
]

if "COCOTB_TEST_MODULES" in os.environ:
    # pytest's own filter does not reach the simulator's process; cocotb's extensions are exempt.
    for package in ("contracts", "golden", "hw", "sim", "tb"):
        warnings.filterwarnings("error", module=rf"{package}(\..*)?")
