"""The report of a run: what is in it, and that a browser shows it without network and without complaint."""

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.datasets import load
from scripts.flows.doctor import BROWSERS
from scripts.flows.run import Request, run
from scripts.report import Run, Timeline, write_report
from scripts.report.figures import confusion, svg


class Page(HTMLParser):
    """Collects what a page refers to, its headings and its table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.tags: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note references."""
        self._in = tag
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        """Note headings and cells."""
        if data.strip():
            {"h2": self.headings, "td": self.cells}.get(self._in, []).append(data.strip())


def result(**changed: Any) -> dict[str, Any]:
    """Return what a run on a ring of two leaves."""
    return {
        "dataset": {"name": "karate", "nodes": 34, "edges": 156, "features": 34, "classes": 2},
        "model": {"name": "gcn", "layers": [[34, 16], [16, 2]], "file": None},
        "config": {"name": "default", "chiplets": 2},
        "bit_exact": True,
        "differences": [],
        "cycles": 4000,
        "macs": {"useful": 5000, "lanes": 64, "limit_cycles": 1000, "utilisation": 0.02},
        "external_bytes": {"read": 9000, "written": 1000, "compulsory": 5000},
        "ring": {"placement": "tiles", "words_by_link": [7, 8], "minimum": [7, 8], "unicast": 30, "broadcast": 20},
        "aggregation": {"baseline": 100, "gross": 70, "net": 80},
        "accuracy": {"float": 0.9, "machine": 0.9, "agreement": 1.0},
        "head": {"accuracy": {"machine": 0.8, "network": 0.9, "float": 0.8}},
        "batch": {"cycles": {"total": 700}, "accuracy": {"machine": 0.9, "float": 0.9}},
        "attribute_cache": {
            "requests": 40, "misses": 10, "in_place": 5, "cached": 5, "moved": 20, "missed": 10, "slots": 8, "ways": 2,
            "policy": "lru",
        },
        "simulation": {"wall_seconds": 1.0, "cycles_per_second": 4000.0},
        "tools": {"python": "3", "numpy": "2"},
        "seed": 0,
        "commit": None,
        **changed,
    }  # fmt: skip


def page(folder: Path, **changed: Any) -> Page:
    graph = load("karate")
    phases = [[(0, "combine", 1000, 10), (1, "aggregate", 2000, 1100)], [(0, "combine", 1500, 30)]]
    working = [np.full((50, 2), share, np.uint8) for share in (64, 32)]
    timeline = Timeline(phases, ("PE 0", "PE 1"), working, 64)
    predicted = np.where(graph.labels < 0, 0, graph.labels)
    write_report(folder / "report.html", result(**changed), Run(graph, predicted, timeline))
    return Page((folder / "report.html").read_text())


def test_a_report_has_every_figure_and_needs_nothing_else(tmp_path: Path) -> None:
    made = page(tmp_path)
    assert made.headings == [
        "Summary",
        "Where cycles went",
        "Ring traffic",
        "Attribute cache",
        "Adjacency, as given and by communities",
        "Confusion matrix",
    ]
    assert made.tags.count("svg") == 5
    assert all(reference.startswith(("data:", "#")) for reference in made.references)
    assert "script" not in made.tags
    # Measured, limit, measured / limit.
    for row in (
        ["cycles", "4,000", "1,000", "4.00"],
        ["external bytes", "10,000", "5,000", "2.00"],
        ["attributes fetched, beside requests", "10", "40", "0.25"],
    ):
        at = made.cells.index(row[0])
        assert made.cells[at : at + 4] == row


def test_names_are_escaped_and_differences_shown(tmp_path: Path) -> None:
    data = {"name": "<b>mine</b>", "nodes": 34, "edges": 156, "features": 34, "classes": 2}
    page(tmp_path, dataset=data, bit_exact=False, differences=["layer 0: 3 of 9 values differ"])
    text = (tmp_path / "report.html").read_text()
    assert "<b>mine" not in text
    assert "&lt;b&gt;mine" in text
    assert "not bit-exact" in text
    assert "layer 0: 3 of 9 values differ" in text


def test_a_run_without_rtl_has_a_report_too(tmp_path: Path) -> None:
    run(Request("karate", rtl=False, out=tmp_path))
    made = Page((tmp_path / "report.html").read_text())
    assert "Where cycles went" not in made.headings
    assert "Confusion matrix" in made.headings


def test_a_browser_shows_it_without_complaint(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    page(tmp_path)
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr", "--log-level=0", "--window-size=1200,3000", "--timeout=20000",
            f"--screenshot={tmp_path / 'report.png'}", (tmp_path / "report.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_a_confusion_matrix_of_one_class_is_drawn() -> None:
    """Pytest makes errors of the warnings that scikit-learn has for it."""
    ones = np.ones(5, dtype=np.int64)
    assert "<svg" in svg(confusion(ones, ones))
    (axes,) = confusion(np.array([0, 2, 2]), np.array([2, 2, 5])).axes
    assert [text.get_text() for text in axes.texts] == ["0", "1", "0", "0", "1", "1", "0", "0", "0"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "2", "5"]
