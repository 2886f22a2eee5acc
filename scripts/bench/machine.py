"""`atoll bench machine`: whole inferences on every kind of machine, beside their aims and published figures."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden.errors import InputError
from scripts.bench.community import PUBLISHED
from scripts.bench.names import named
from scripts.flows.run import Request, run
from scripts.flows.table import show

__all__ = ["MACHINES", "bench"]

#: Machines of 64 multipliers in all: configuration, chiplets, placement.
MACHINES = (
    ("default", 1, "tiles"),
    ("community", 1, "tiles"),
    ("default", 4, "tiles"),
    ("default", 4, "communities"),
    ("community", 4, "tiles"),
    ("community", 4, "communities"),
)
#: Hardest of the aims for a whole machine.
_UTILISATION, _BYTES, _LOSS, _AGREEMENT, _SPEED, _GENERATION = 0.9, 1.2, 0.005, 0.99, 20_000, 60


def _row(result: dict[str, Any]) -> tuple[Any, ...]:
    sizes, macs, moved, ring = result["config"], result["macs"], result["external_bytes"], result["ring"]
    figures = result["accuracy"]
    words = f"{sum(ring['words_by_link']):,} / {sum(ring['minimum']):,}" if ring else ""
    return (
        result["dataset"]["name"],
        f"{sizes['name']}, {sizes['chiplets']}" + (f", {ring['placement']}" if ring else ""),
        macs["lanes"],
        f"{result['cycles']:,}",
        f"{macs['utilisation']:.1%}",
        f"{(moved['read'] + moved['written']) / moved['compulsory']:.2f}",
        words,
        f"{figures['machine'] - figures['float']:+.2%}",
        f"{figures['agreement']:.2%}",
        f"{result['simulation']['cycles_per_second']:,.0f}",
        "yes" if result["bit_exact"] else "NO",
    )


def _generation(config: str, chiplets: int) -> float:
    """Seconds that the Verilog of a machine takes."""
    from scripts.machine import make_machine
    from tb.harness.build import to_rtlil, to_verilog

    began = time.perf_counter()
    machine = make_machine(config, chiplets)
    for name, component in {"machine": machine, **machine.modules}.items():
        to_verilog(to_rtlil(component, name))
    return time.perf_counter() - began


def bench(names: Sequence[str] | None = None, out: Path = Path("atoll-out/bench")) -> dict[str, Any]:
    """Run two layers of GCN on every machine, in RTL; write ``machine.json``.

    Parameters
    ----------
    names
        Data sets; default: Cora where `ATOLL_PLANETOID` names its folder, and digits.
    out
        Folder for the file, and for the runs' own files.

    Returns
    -------
    dict
        ``runs``, each what `atoll run` writes into its ``result.json``, ``refused``, with the reason, those that a
        graph is too large for, and ``generation_seconds`` by machine.
    """
    runs, refused = [], []
    for name in named(names, "digits"):
        for config, chiplets, placement in MACHINES:
            folder = out / "machine" / f"{config}-{chiplets}-{placement}"
            request = Request(name, config=config, chiplets=chiplets, out=folder)
            try:
                runs.append(run(replace(request, placement=placement)))
            except InputError as error:
                refused.append({"machine": f"{config}, {chiplets}, {placement}", "error": str(error)})
    seconds = {f"{config}, {chiplets}": _generation(config, chiplets) for config, chiplets, _ in MACHINES[::2]}
    columns = (
        "graph", "machine, chiplets, placement", "lanes", "cycles", "utilisation", "bytes / compulsory",
        "words on links / least", "accuracy - float", "agreement", "cycles a second", "bit-exact",
    )  # fmt: skip
    show("two layers of GCN, location of communities included", columns, [_row(result) for result in runs])
    if refused:
        show("does not fit", ("machine, chiplets, placement", "why"), [tuple(entry.values()) for entry in refused])
    published = ", ".join(f"{who} {share:.0%}" for who, share in PUBLISHED.items())
    show(
        "aims",
        ("of", "aim"),
        [
            ("utilisation of 64 multipliers on Cora", f"{_UTILISATION:.0%}; published, 4,096: {published}"),
            ("external bytes, if hidden features fit on the chip", f"{_BYTES} of the compulsory"),
            ("accuracy", f"at most {_LOSS:.1%} below float, {_AGREEMENT:.0%} of predictions agree"),
            ("simulated cycles a second", f"{_SPEED:,}"),
            (
                f"Verilog of a machine, at most {_GENERATION} s",
                "; ".join(f"{machine}: {took:.0f} s" for machine, took in seconds.items()),
            ),
        ],
    )
    result = {"schema": 1, "runs": runs, "refused": refused, "generation_seconds": seconds}
    out.mkdir(parents=True, exist_ok=True)
    (out / "machine.json").write_text(json.dumps(result, indent=1) + "\n")
    return result
