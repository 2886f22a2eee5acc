"""The C++ compiler of simulators: Clang with its linker, from the package `ziglang`, so that no system's is needed.

Its programs are half as fast again as GCC's at any of its settings, and large ones take less time to compile.
"""

import importlib.util
import os
import subprocess
from functools import cache
from pathlib import Path

__all__ = ["AR", "CPP", "ZIG", "C", "has_fst", "make_variables"]


def _cache_folder() -> str:
    """Return where it keeps C++'s library, compiled once, in a minute: the user's caches, or `build`."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    there = next(folder for folder in (caches, *caches.parents) if folder.exists())
    return str((caches if os.access(there, os.W_OK) else Path(__file__).resolve().parents[2] / "build") / "zig")


os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", _cache_folder())


_found = importlib.util.find_spec("ziglang")
#: The program of the package `ziglang`, which need not be imported for it.
ZIG = str(Path(_found.origin or "").with_name("zig")) if _found else "zig"
#: No checks of C++'s rules in what is not optimised, no tables for a debugger, and no instructions that only this
#: computer's processor has.
_OPTIONS = ("-O3", "-fno-sanitize=undefined", "-g0", "-mcpu=baseline")
#: Compiles and links C, or C++.
C = (ZIG, "cc", *_OPTIONS)
CPP = (ZIG, "c++", *_OPTIONS)
#: Makes archives.
AR = (ZIG, "ar")


def make_variables(*, together: bool = False, headers: Path | None = None) -> tuple[str, ...]:
    """Return the variables that Verilator's makefiles take: this compiler, and how it compiles.

    Parameters
    ----------
    together
        A design's files in one go.
    headers
        Precompiled headers, compiled with the same options.
    """
    compiles = " ".join(CPP)
    variables = {
        "CXX": f"{compiles} -include-pch {headers}" if headers else compiles,
        "LINK": f"{compiles} -s",
        "AR": " ".join(AR),
        "OPT_FAST": "",
        "OPT_SLOW": "-O0",
        "OPT_GLOBAL": "",
        # The wheel's verilated.mk leaves the precompiled header's option empty.
        "CFG_CXXFLAGS_PCH_I": "-include",
    }
    if together:
        variables["VM_PARALLEL_BUILDS"] = "0"
    return tuple(f"{name}={value}" for name, value in variables.items())


@cache
def has_fst() -> bool:
    """Whether the compiler finds what FST waveforms need (lz4 and zlib); otherwise they are VCD."""
    headers = "#include <lz4.h>\n#include <zlib.h>\n"
    command = [*CPP, "-x", "c++", "-c", "-o", "/dev/null", "-"]
    return subprocess.run(command, input=headers, text=True, capture_output=True, check=False).returncode == 0
