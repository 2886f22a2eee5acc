"""The pictures of graphs and of time: looked at by their pixels and by what is drawn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from contracts import Opcode
from golden.datasets import load
from golden.graph import Graph
from golden.locator.locator import Limits, locate
from golden.locator.order import bands, reorder
from golden.locator.record import Record
from golden.locator.schedule import Schedule
from scripts.report.adjacency import BLOCKS, adjacency, blocks_of
from scripts.report.drawing import drawing
from scripts.report.figures import Timeline, timeline
from scripts.report.glossary import PHASES, phase_title
from sim.runner.phases import Gap

#: A point with one edge is darker than this in one of its colours, and what is tinted is not.
DARK = 0.75


def at_blocks(figure: Figure, axes: Axes, graph: Graph) -> np.ndarray:
    """Return the darkest colour in the middle of every block of `axes`: float64 [blocks, blocks]."""
    figure.set_dpi(120)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3].min(axis=2) / 255
    side = min(graph.nodes, BLOCKS)
    # The picture is cut into blocks of equal size.
    middles = (np.arange(side) + 0.5) * graph.nodes / side - 0.5
    where = axes.transData.transform(np.stack([middles, middles], axis=1)).astype(int)
    found: np.ndarray = pixels[np.ix_(where[:, 1], where[:, 0])]
    return found


def records_of(graph: Graph, first: int = 6) -> list[Record]:
    return locate(graph, Schedule(first, False, 2), Limits()).records


def points(graph: Graph, position: np.ndarray) -> np.ndarray:
    every = np.arange(graph.nodes)
    rows, columns = np.concatenate([graph.destinations, every]), np.concatenate([graph.edges, every])
    return blocks_of(position[rows], position[columns], graph.nodes) > 0


@pytest.mark.parametrize("name", ["karate", "synthetic:power-law,nodes=12000"])
def test_every_block_with_an_edge_is_drawn(name: str) -> None:
    """However many there are: on the larger graph more than 80,000 points."""
    graph = load(name)
    records = records_of(graph)
    figure = adjacency(graph, records)
    before, after = figure.axes
    given = points(graph, np.arange(graph.nodes))
    drawn = at_blocks(figure, before, graph) < DARK
    assert drawn[given].all()
    # Blocks along the frame share pixels with it.
    inner = slice(1, -1)
    assert np.array_equal(drawn[inner, inner], given[inner, inner])
    ordered = points(graph, reorder(graph.nodes, records)[0])
    assert (at_blocks(figure, after, graph)[ordered] < DARK).all()
    # Tinted L shapes and borders are not taken for edges: hardly anything else is dark.
    dark = (at_blocks(figure, after, graph) < DARK).sum()
    assert dark < ordered.sum() + 2 * len(bands(records)) * len(ordered)


def test_blocks_have_as_many_nodes_as_each_other() -> None:
    counts = blocks_of(np.arange(1000), np.arange(1000), 1000)
    assert counts.shape == (BLOCKS, BLOCKS)
    assert set(np.diag(counts).tolist()) == {2, 3}
    assert counts.sum() == 1000


def test_bands_are_the_rounds_of_the_order() -> None:
    graph = load("synthetic:power-law,nodes=300")
    records = records_of(graph)
    position, group = reorder(graph.nodes, records)
    in_order, at = group[np.argsort(position)], 0
    found = bands(records)
    assert [number for number, *_ in found] == sorted({record.round_number for record in records})
    for _, hubs, others in found:
        assert (in_order[at : at + hubs] == -1).all()
        assert (in_order[at + hubs : at + hubs + others] >= 0).all()
        at += hubs + others
    assert at == graph.nodes


def test_each_round_has_its_border() -> None:
    graph = load("synthetic:power-law,nodes=300")
    records = records_of(graph)
    (_, after), at = adjacency(graph, records).axes, 0
    borders = [np.asarray(line.get_xydata()).tolist() for line in after.lines]
    for (_, hubs, others), border in zip(bands(records), borders, strict=True):
        assert border[1] == [at - 0.5, at - 0.5]
        at += hubs + others


def test_edges_that_no_record_has_are_drawn_apart() -> None:
    """As those between communities of two chiplets, each of which takes the other's vertices for hubs."""
    graph = load("karate")
    records = [Record(np.array([n]), np.empty(0, np.int64), np.ones((1, 1), np.bool_), 0) for n in range(30)]
    figure = adjacency(graph, records)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["in a community", "of a hub", "between chiplets or tiles", "border of a round"]


def test_wrong_nodes_are_marked() -> None:
    graph = load("karate")
    predicted = graph.labels.copy()
    predicted[[3, 8]] = 1 - predicted[[3, 8]]
    figure = drawing(replace(graph, labels=np.where(np.arange(34) == 8, -1, graph.labels)), predicted)
    (nodes,) = figure.axes[0].collections
    marked = [n for n, colour in enumerate(np.asarray(nodes.get_edgecolor())) if same_color(colour, "black")]
    assert marked == [3]  # the other has no label
    colours = {tuple(colour) for colour in np.asarray(nodes.get_facecolor())}
    assert len(colours) == 2
    assert figure.legends[0].get_texts()[-1].get_text() == "label is another class"


def test_every_command_and_gap_has_a_colour_and_a_sentence(tmp_path: Path) -> None:
    names = [*(opcode.name.lower() for opcode in Opcode), *Gap]
    assert set(PHASES) == set(names)
    phases = [[(0, name, 100, 100 * n) for n, name in enumerate(names)]]
    figure = timeline(Timeline(phases, ("PE 0",), [np.zeros((50, 1), np.uint8)], 64))
    shown = figure.legends[0]
    assert {text.get_text() for text in shown.get_texts()} == {phase_title(name) for name in names}
    colours = {patch.get_facecolor() for patch in shown.get_patches()}
    assert len(colours) == len(names)


def test_the_timeline_is_painted_from_the_first_to_the_last_cycle() -> None:
    """A chiplet that completes before another is painted up to its end, and light from there on."""
    phases = [
        [(None, "start", 300, 1000), (0, "combine", 500, 1300), (None, "end", 200, 1800)],
        [(None, "start", 300, 1010), (0, "barrier", 90, 1310)],
    ]
    working = [np.zeros((40, 1), np.uint8)] * 2
    figure = timeline(Timeline(phases, ("PE 0",), working, 64))
    (axes,) = figure.axes
    figure.set_dpi(120)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    for chiplet in range(2):
        # Just below the upper border of its row.
        top = chiplet * (1.4 * 0.34 + 0.17) + 0.03
        # From chiplet 1's start on; its host starts it a little later.
        ends = axes.transData.transform([(12, top), (998, top)]).astype(int)
        row = pixels[ends[0, 1], ends[0, 0] : ends[1, 0]]
        assert (row.min(axis=1) < 250).all()
    assert figure.legends[0].get_texts()[-1].get_text() == "completed before others"
