"""The report of a run: what is in it, and that a browser shows it without network and without complaint."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.datasets import load
from golden.graph import Graph
from golden.locator.locator import Limits, locate
from golden.locator.schedule import Schedule
from scripts.flows.doctor import BROWSERS
from scripts.flows.run import Request, run
from scripts.report import Run, Timeline, predictions, write_report
from scripts.report.drawing import drawing
from scripts.report.figures import confusion, svg
from tb.flows.results import made


class Page(HTMLParser):
    """Collects what a page refers to, its headings, tables, terms and captions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.tags: list[str] = []
        self.terms: list[str] = []
        self.captions: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note references."""
        self._in = tag
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        """Note texts by what they are in."""
        if data.strip():
            {"h2": self.headings, "td": self.cells, "dt": self.terms, "figcaption": self.captions}.get(
                self._in, []
            ).append(data.strip())


#: Changes to `made` where nothing was simulated and only the network ran.
NOTHING: dict[str, Any] = {
    "bit_exact": None, "differences": None, "cycles": None, "cycles_by_phase": None, "ring": None,
    "aggregation": None, "head": None, "batch": None, "attribute_cache": None,
    "macs": {"utilisation": None},
    "external_bytes": {"read": None, "written": None},
    "simulation": {"wall_seconds": None, "cycles_per_second": None},
}  # fmt: skip


def page(folder: Path, given: dict[str, Any] | None = None, **changed: Any) -> Page:
    graph = load("karate")
    phases = [
        [(None, "start", 90, 10), (0, "combine", 1000, 100), (None, "between", 90, 1100), (1, "aggregate", 2820, 1190)],
        [(None, "start", 90, 10), (0, "combine", 1500, 100), (0, "barrier", 20, 1600)],
    ]
    working = [np.full((50, 2), share, np.uint8) for share in (64, 32)]
    timeline = Timeline(phases, ("PE 0", "PE 1"), working, 64)
    predicted = np.where(np.arange(34) == 7, 1 - graph.labels, graph.labels)
    found = made(**changed)
    run = {"timeline": timeline if found.cycles else None, "floating": graph.labels, **(given or {})}
    write_report(folder / "report.html", found, Run(graph, predicted, **run))
    return Page((folder / "report.html").read_text())


def test_a_report_has_every_figure_and_needs_nothing_else(tmp_path: Path) -> None:
    made = page(tmp_path)
    assert made.headings == [
        "Summary",
        "Where cycles went",
        "Ring traffic",
        "Attribute cache",
        "The graph",
        "Adjacency, as given and by rounds",
        "Confusion matrix",
        "Predictions",
        "Terms",
    ]
    assert made.tags.count("svg") == 6
    assert all(reference.startswith(("data:", "#")) for reference in made.references)
    # Measured, limit, measured / limit.
    for row in (
        ["cycles", "4,000", "1,000", "4.00"],
        ["external bytes", "10,000", "5,000", "2.00"],
        ["AUC of pairs of nodes, beside float", "0.800", "0.900", "0.89"],
        ["mean reciprocal rank of joined pairs, beside float", "0.700", "0.700", "1.00"],
        ["attributes fetched, beside requests", "10", "40", "0.25"],
        # Phases, the longest first.
        ["layer 1: AGGREGATE", "2,820", "70.5%", "layer 0: COMBINE"],
        ["all", "4,000", "100.0%"],
    ):
        at = made.cells.index(row[0])
        assert made.cells[at : at + len(row)] == row


def test_sections_and_terms_that_play_no_part_are_left_out(tmp_path: Path) -> None:
    made = page(tmp_path, **NOTHING)
    assert made.headings == [
        "Summary", "The graph", "Adjacency, as given and by rounds", "Confusion matrix", "Predictions", "Terms",
    ]  # fmt: skip
    assert made.terms == ["golden model", "float", "hub", "community", "round"]
    terms = page(tmp_path).terms
    assert {"COMBINE", "AGGREGATE", "BARRIER", "start", "between commands", "head", "placement"} <= set(terms)
    assert {"mini-batch", "pair", "AUC", "reciprocal rank"} <= set(terms)
    assert not {"PROCESS", "LOCATE", "NEURAL", "LIST in the background"} & set(terms)


def test_the_caption_says_who_has_found_the_communities(tmp_path: Path) -> None:
    """The golden model draws only where the hardware has found none, and says so."""
    records = locate(load("karate"), Schedule(5, False, 1), Limits()).records
    said = page(tmp_path, {"records": records}).captions
    assert [line for line in said if "as the hardware found them" in line]
    golden = "Found by the golden model of the locator, not by the hardware "
    for changed, given, why in (
        (NOTHING, {}, "(nothing was simulated): thresholds from 9 falling by 1"),
        ({}, {"schedule": Schedule(8)}, "(this machine has not located any): thresholds from 8 halving"),
        ({"communities": {"hubs": 3}}, {}, "(the machine located the graph in parts): thresholds from 9 falling by 1"),
    ):
        said = page(tmp_path, given, **changed).captions
        assert [line for line in said if line.startswith(golden + why)]


def test_a_node_far_off_leaves_room_for_the_drawing() -> None:
    """Warnings are errors; here the layout puts a node without edges far from all others."""
    edges = np.array([(0, node) for node in range(1, 13)] + [(node, node + 1) for node in range(1, 12)]).T
    graph = Graph.from_edges("wheel", 14, *edges, symmetrise=True)
    assert svg(drawing(graph, np.arange(14) % 2)).count("<text") >= 14


def test_a_large_graph_lists_its_first_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load("karate")
    monkeypatch.setattr(predictions, "LISTED_NODES", 5)
    assert predictions.listed(graph, 1 - graph.labels, graph.labels) == {
        "what": "node",
        "nodes": 34,
        "label": graph.labels[:5].tolist(),
        "predicted": (1 - graph.labels[:5]).tolist(),
        "set": "".join(str(part) for part in (graph.train + 2 * graph.validation + 3 * graph.test)[:5]),
        "sets": ["", "training", "validation", "test"],
        "differs": [0, 1, 2, 3, 4],
    }
    unknown = predictions.listed(replace(graph, labels=np.full(34, -1)), graph.labels, None)
    assert (unknown["label"], unknown["differs"]) == (None, None)


@pytest.fixture
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    return found


def browse(browser: str, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page without network."""
    return subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update",
            f"--user-data-dir={path.with_name('profile')}", "--enable-logging=stderr", "--log-level=0",
            "--window-size=1200,3000", "--timeout=20000", *options, path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )  # fmt: skip


def test_nodes_can_be_searched(browser: str, tmp_path: Path) -> None:
    page(tmp_path)
    text = (tmp_path / "report.html").read_text()
    labels = load("karate").labels.tolist()

    def rows(asked: str) -> list[list[str]]:
        """Type into the fields by a script at the end of the page, and return what the table shows."""
        typed = f"<script>{asked}; find.dispatchEvent(new Event('input'));</script></body>"
        (tmp_path / "typed.html").write_text(text.replace("</body>", typed))
        shown = browse(browser, tmp_path / "typed.html", "--dump-dom").stdout
        body = shown[shown.index('<table id="nodes">') :]
        body = body[body.index("<tbody>") : body.index("</tbody>")]
        return [re.findall(r"<td>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]

    find = "const find = document.getElementById('find')"
    assert [row[0] for row in rows(f"{find}; find.value = '5, 31-40'")] == ["5", "31", "32", "33"]
    (wrong,) = rows(f"{find}; document.getElementById('show').value = 'wrong'")
    assert wrong[0] == "7"
    assert wrong[2:] == [str(labels[7]), str(1 - labels[7]), "no", "no"]
    assert rows(f"{find}; find.value = 'Mr Hi'") == []
    assert len(rows(f"{find}; find.value = ''")) == 20
    more = rows(f"{find}; find.value = ''; document.getElementById('more').click()")
    assert len(more) == 20  # a new search begins with the first again


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


def test_a_browser_shows_it_without_complaint(browser: str, tmp_path: Path) -> None:
    page(tmp_path)
    done = browse(browser, tmp_path / "report.html", f"--screenshot={tmp_path / 'report.png'}")
    assert "CONSOLE" not in done.stderr, done.stderr
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_a_confusion_matrix_of_one_class_is_drawn() -> None:
    """Pytest makes errors of the warnings that scikit-learn has for it."""
    ones = np.ones(5, dtype=np.int64)
    assert "<svg" in svg(confusion(ones, ones))
    (axes,) = confusion(np.array([0, 2, 2]), np.array([2, 2, 5])).axes
    assert [text.get_text() for text in axes.texts] == ["0", "1", "0", "0", "1", "1", "0", "0", "0"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "2", "5"]
