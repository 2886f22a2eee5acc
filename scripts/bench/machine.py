"""`atoll bench machine`: whole inferences on every kind of machine, beside their aims and published figures."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from contracts.errors import InputError
from scripts.bench import aims, latency, ring
from scripts.bench.names import named
from scripts.flows.outputs import checked_folder, write
from scripts.flows.run import Request, run
from scripts.flows.schema import Result
from scripts.flows.synth import routed
from scripts.flows.table import show
from scripts.flows.typed_json import plain
from scripts.machine import machine_block, make_machine
from sim.harness.build import to_rtlil, to_verilog

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
#: The machine that an FPGA holds, and one whose layers end on the neural chip.
FPGA = "ecp5-85"
NEURAL = ("default", 4, "tanh")


def _row(result: Result) -> tuple[Any, ...]:
    sizes, macs, moved, ring = result.config, result.macs, result.external_bytes, result.ring
    words = f"{ring.words:,} / {ring.least:,}" if ring else ""
    return (
        result.dataset.name,
        f"{sizes.name}, {sizes.chiplets}" + (f", {ring.placement}" if ring else ""),
        result.model.activation,
        macs.lanes,
        f"{result.cycles:,}",
        f"{macs.limit_cycles:,}",
        f"{macs.utilisation:.1%}",
        f"{moved.total / moved.compulsory:.2f}",
        words,
        f"{result.simulation.cycles_per_second:,.0f}",
        "yes" if result.bit_exact else "NO",
    )


def _generation(config: str, chiplets: int) -> float:
    """Seconds that the Verilog of a machine takes."""
    began = time.perf_counter()
    machine = make_machine(config, chiplets)
    for name, component in {"machine": machine, **machine.modules}.items():
        to_verilog(to_rtlil(component, name))
    return time.perf_counter() - began


def _requests(name: str, out: Path) -> list[Request]:
    """Whole inferences on one graph, each in a folder of its own."""
    requests = [
        Request(
            name, config=config, chiplets=chiplets, placement=placement, out=out / f"{config}-{chiplets}-{placement}"
        )
        for config, chiplets, placement in MACHINES
    ]
    config, chiplets, activation = NEURAL
    requests.append(Request(name, config=config, chiplets=chiplets, activation=activation, out=out / activation))
    requests.append(Request(name, config=FPGA, chiplets=1, out=out / FPGA))
    return requests


def bench(names: Sequence[str] | None = None, out: Path = Path("atoll-out/bench")) -> dict[str, Any]:
    """Run two layers of GCN on every machine, in RTL, and print what they are judged by; write ``machine.json``.

    Parameters
    ----------
    names
        Data sets; default: Cora where `ATOLL_PLANETOID` names its folder, and digits.
    out
        Folder for the file, and for the runs' own files.

    Returns
    -------
    dict
        ``runs``, each what `atoll run` writes into its ``result.json``; ``refused``, with the reason, those that a
        graph is too large for; ``layers``, one layer on each placement; ``host``, the same network on this processor;
        ``generation_seconds`` by machine; ``megahertz`` of the FPGA's machine, None where it was not placed here; and
        ``figures``, a list of `scripts.bench.aims.Figure`.
    """
    runs, refused = [], []
    names = named(names, "digits")
    for name in names:
        for request in _requests(name, out / "machine"):
            try:
                runs.append(run(request))
            except InputError as error:
                refused.append({"machine": f"{request.config}, {request.chiplets}", "error": str(error)})
    layers = ring.bench(names, output=out)["traffic"]
    timed = latency.bench(names, out)
    seconds = {f"{config}, {chiplets}": _generation(config, chiplets) for config, chiplets, _ in MACHINES[::2]}
    area = routed(machine_block(FPGA))
    megahertz = area.fmax if area else None
    columns = (
        "graph", "machine, chiplets, placement", "layers end in", "lanes", "cycles", "at least", "utilisation",
        "bytes / compulsory", "words on links / least", "cycles a second", "bit-exact",
    )  # fmt: skip
    show("two layers of GCN, location of communities included", columns, [_row(result) for result in runs])
    if refused:
        show("does not fit", ("machine, chiplets", "why"), [tuple(entry.values()) for entry in refused])
    on_fpga = [result for result in runs if result.config.name == FPGA]
    figures = [
        *aims.utilisation(runs),
        *aims.memory(runs),
        *aims.ring(runs, layers),
        *aims.accuracy(runs),
        *aims.neural(runs),
        *aims.speed(runs),
        *aims.verilog(seconds),
        *aims.fpga(on_fpga, megahertz),
        *aims.host(timed),
    ]
    show("what it is judged by", ("of", "measured", "aim", "met", "published"), [astuple(figure) for figure in figures])
    result = {
        "schema": 2,
        "runs": [plain(run) for run in runs],
        "refused": refused,
        "layers": layers,
        "host": timed,
        "generation_seconds": seconds,
        "megahertz": megahertz,
        "figures": [asdict(figure) for figure in figures],
    }
    checked_folder(out)
    write(out / "machine.json", json.dumps(result, indent=1) + "\n")
    return result
