"""`atoll bench cache-rates`: look-ups, swaps and memory bandwidth of the attribute RAM, measured in RTL."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contracts import Flow, Policy
from hw.attributes.formats import AttributeConfig
from scripts.flows.outputs import checked_folder, publishing
from scripts.flows.table import show
from sim.attributes.trace_bench import Phase, Played, play
from sim.harness import ROOT

__all__ = ["bench"]

#: The source's sizes.
SIZES = AttributeConfig(slots=200, ways=30, row_beats=16, id_bits=12, policy=Policy.LRU)
NODES = 2050
#: Beats of a row: 32, 128 and 512 bytes.
BEATS = (1, 4, 16)
LATENCY = 100
COUNT = 1000
#: Aims: swaps take the beats of a row and so many cycles; share of the memory's bandwidth with the longest rows.
SWAP_EXTRA, BANDWIDTH = 4, 0.8


def _phases() -> dict[str, Phase]:
    """Phases by name, each on what those before it left."""
    slots = SIZES.slots
    missing = range(1000, NODES)
    return {
        "fill": Phase(tuple((n, n, 0) for n in range(slots))),
        "hits in place": Phase(tuple((n % slots, n % slots, 0) for n in range(COUNT))),
        "hits at another address (A7b)": Phase(tuple((n % 2, 0, 0) for n in range(1, COUNT + 1))),
        "bring two": Phase(((500, 3, 0), (501, 3, 0))),
        "hits in the cache (A7a)": Phase(tuple((500 + n % 2, 3, 0) for n in range(COUNT))),
        "misses": Phase(tuple((n, n % slots, 0) for n in missing), latency=LATENCY),
        "misses, every row read by the compute units": Phase(
            tuple((n - 800, n % slots, 1) for n in missing), latency=LATENCY
        ),
    }


def _row(name: str, beats: int, phase: Phase, one: Played) -> dict[str, Any]:
    count = len(phase.requests)
    return {
        "what": name,
        "row_beats": beats,
        "requests": count,
        "misses": sum(step.flow == Flow.MISSED for step in one.events),
        "cycles": one.cycles,
        "cycles_per_request": one.cycles / count,
        "beats_read": one.beats,
        "bandwidth": one.beats / one.cycles,
    }


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw cycles a request, and the share of the memory's bandwidth, by trace and beats of a row."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(row["what"] for row in rows))
    missing = [name for name in names if name.startswith("misses")]
    figure, (cycles, bandwidth) = pyplot.subplots(
        2, 1, figsize=(8, 6), layout="constrained", height_ratios=[len(names), len(missing)]
    )
    for number, beats in enumerate(BEATS):
        mine = {row["what"]: row for row in rows if row["row_beats"] == beats}
        for axis, shown, key, scale in (
            (cycles, names, "cycles_per_request", 1),
            (bandwidth, missing, "bandwidth", 100),
        ):
            at = [n + (number - 1) / 4 for n in range(len(shown))]
            axis.barh(
                at,
                [scale * mine[name][key] for name in shown],
                1 / 4,
                label=f"rows of {beats}" if axis is cycles else None,
            )
    for axis, shown, label in (
        (cycles, names, "cycles a request"),
        (bandwidth, missing, "% of the memory's bandwidth"),
    ):
        axis.set_yticks(range(len(shown)), shown)
        axis.invert_yaxis()
        axis.set_xlabel(label)
    bandwidth.axvline(100 * BANDWIDTH, color="gray", linestyle=":", label="aim with long rows")
    cycles.legend(fontsize="small")
    bandwidth.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def bench(out: Path = ROOT / "build" / "bench") -> dict[str, Any]:
    """Print the table, write `cache-rates.json` and draw `cache-rates.png`.

    Parameters
    ----------
    out
        Folder for both.

    Returns
    -------
    dict
        What is in the file.
    """
    rows = []
    for beats in BEATS:
        phases = _phases()
        with TemporaryDirectory() as folder:
            played, _ = play(SIZES, list(phases.values()), Path(folder), nodes=NODES, beats=beats, name="cache_rates")
        rows += [
            _row(name, beats, phase, one)
            for (name, phase), one in zip(phases.items(), played, strict=True)
            if name not in ("fill", "bring two")
        ]
    show(
        f"attribute RAM in RTL: latency {LATENCY}, {SIZES.outstanding} rows under way "
        f"(aims: 1 cycle a hit in place, beats + {SWAP_EXTRA} a swap, {BANDWIDTH:.0%} of the bandwidth with long rows)",
        ("trace", "beats of a row", "requests", "cycles", "cycles a request", "share of the memory's bandwidth"),
        [
            (row["what"], row["row_beats"], f"{row['requests']:,}", f"{row['cycles']:,}",
             f"{row['cycles_per_request']:.2f}", f"{row['bandwidth']:.1%}" if row["beats_read"] else "")
            for row in rows
        ],
    )  # fmt: skip
    result = {
        "slots": SIZES.slots,
        "ways": SIZES.ways,
        "latency": LATENCY,
        "outstanding": SIZES.outstanding,
        "rows": rows,
    }
    with publishing(checked_folder(out)) as files:
        (files / "cache-rates.json").write_text(json.dumps(result, indent=2) + "\n")
        _plot(rows, files / "cache-rates.png")
    return result
