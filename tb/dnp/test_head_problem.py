"""A head on a layer's results: rows, targets and scale, the image's commands on the golden chip, what is refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import golden.head
from contracts import COMMANDS, LINE_BYTES, Model, Opcode
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import HEADER, Operation, Space
from contracts.dnp.topology import CHIP
from contracts.errors import InputError
from golden.dnp.array import ArrayModel
from golden.dnp.chip_rows import collect, feed
from golden.head import HeadProblem, check_head, head_of
from golden.image import Image
from golden.image_format import row_bytes
from golden.model.layer import Int16Array
from golden.model.network import infer
from sim.problems import random_graph, random_problem
from tb.dnp.heads import head_problem, labelled

CORE = ProcessorConfig(wm_depth=96, xm_depth=20, p_depth=512, table_bits=5)


def small(nodes: int = 21, epochs: int = 3, hidden: tuple[int, ...] = ()) -> HeadProblem:
    """Return a head of 6 features and 5 classes on a random graph, with hidden layers of these widths."""
    graph = labelled(random_graph(3, nodes, 4 * nodes, features=4, density=1), 5, seed=1)
    problem = random_problem(graph, Model.GCN, [6, 5], seed=2)
    return head_problem(problem, infer(problem)[0].results, epochs, CORE, hidden=hidden)


def carried_out(image: Image) -> list[Int16Array]:
    """Carry the commands of an image out on a golden chip, frame by frame; results by layer."""
    data, machine = bytearray(image.data), ArrayModel(CORE, CHIP)
    # WM is never cleared.
    machine.state.wm[:] = np.random.default_rng(0).integers(-32768, 32768, machine.state.wm.shape)
    for number in range(image.header["commands"]):
        at = (image.header["command_list"] + number) * LINE_BYTES
        command = COMMANDS[Opcode.NEURAL].from_bytes(bytes(data[at : at + LINE_BYTES]))
        assert (command["opcode"], command["tag"]) == (Opcode.NEURAL, number)
        frames = np.frombuffer(data, "<u2", 2 * command["words"], command["program"] * LINE_BYTES).tolist()
        while frames:
            header = HEADER.unpack(frames.pop(0))
            if header["operation"] == Operation.NOP:
                continue
            address, count = frames[:2]
            words, frames = frames[2 : 2 + count], frames[2 + count :]
            for core in range(CHIP.processors) if header["all"] else [header["core"]]:
                if header["space"] == Space.PROGRAM:
                    assert address == 0
                    machine.load(core, words)
                else:
                    assert header["space"] == Space.WM
                    machine.load(core, wm=dict(enumerate(words, address)))
        feed(machine, _rows(data, command["rows"], command["vertices"], command["f_in"]))
        machine.start()
        machine.run()
        machine.step()
        distance = row_bytes(command["f_out"])
        for row, words in enumerate(collect(machine.edges, command["vertices"], command["f_out"])):
            place = command["results"] * LINE_BYTES + row * distance
            data[place : place + 2 * words.size] = words.astype("<i2").tobytes()
    regions = [image.results_region(layer) for layer in range(image.header["layers"])]
    return [image.rows(region, bytes(data[region.address : region.address + region.bytes])) for region in regions]


def _rows(data: bytearray, line: int, count: int, width: int) -> np.ndarray:
    distance = row_bytes(width)
    whole = np.frombuffer(data, "<i2", count * distance // 2, line * LINE_BYTES).reshape(count, -1)
    return whole[:, :width].astype(np.int64)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize(("nodes", "together"), [(21, None), (21, 4), (1, None), (3, 4)])
def test_the_commands_do_what_the_rule_says(
    nodes: int, together: int | None, hidden: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In commands of fewer rows too, as they are of large graphs; of graphs smaller than a chip."""
    if together:
        monkeypatch.setattr(golden.head, "_TOGETHER", together)
    problem = small(nodes, hidden=hidden)
    image = problem.image()
    pieces = [-(-count // (together or 1000)) for count in (problem.learnt.size, nodes)]
    assert image.header["commands"] == 3 * pieces[0] + 1 + pieces[1]
    assert Image.from_bytes(image.data).regions == image.regions
    ends = [(region.line, region.line + -(-region.bytes // LINE_BYTES)) for region in image.regions]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(sorted(ends)))
    results = carried_out(image)
    assert problem.differences(results) == []
    np.testing.assert_array_equal(results[2], problem.exact.scoring)


def test_differences_are_told() -> None:
    problem = small()
    good = carried_out(problem.image())
    for layer, at, said in (
        (0, (1, 2), f"head, outputs while learning: 1 of {good[0].size} values differ, first at 1, 2: "),
        (1, (0, 3), "head, weights: 1 of 30 values differ, first at 0, 3: "),
        (1, (2, 6), "head, biases: 1 of 5 values differ, first at 3: "),
        (2, (20, 4), "head, outputs: 1 of 105 values differ, first at 20, 4: "),
    ):
        bad = [rows.copy() for rows in good]
        bad[layer][at] ^= 1
        (line,) = problem.differences(bad)
        assert line == f"{said}{bad[layer][at]}, expected {good[layer][at]}"


def test_differences_name_the_layer_of_a_head_with_several() -> None:
    problem = small(hidden=(4,))
    good = carried_out(problem.image())
    bad = [rows.copy() for rows in good]
    # The first words that the first processor gives are the weights of hidden neuron 0 for its share of the features.
    bad[1][0, 0] ^= 1
    (line,) = problem.differences(bad)
    assert line.startswith("head, weights of layer 1: 1 of 24 values differ, first at 0, 0: ")


@pytest.mark.parametrize(
    ("values", "shift"),
    [([0, 0], 15), ([1, -1], 14), ([5, -3], 12), ([-8, 7], 12), ([-9, 3], 11), ([32767, 0], 0), ([0, -32768], 0)],
)
def test_features_are_scaled_as_far_as_they_fit(values: list[int], shift: int) -> None:
    problem = small(2)
    features = np.resize(np.array(values, dtype=np.int16), (2, 6))
    scaled = HeadProblem(problem.problem, features, problem.head, 1)
    assert scaled.shift == shift
    assert scaled.scaled[0].tolist() == [value << shift for value in values] * 3


def test_targets_are_those_of_training_vertices_of_known_class() -> None:
    problem = small()
    graph = problem.problem.graph
    known = [vid for vid in range(graph.nodes) if graph.train[vid] and graph.labels[vid] >= 0]
    assert 0 < len(known) < graph.train.sum()
    assert problem.learnt.tolist() == known
    assert problem.targets.tolist() == [[32767 if n == graph.labels[vid] else 0 for n in range(5)] for vid in known]


def test_the_float_head_with_hidden_layers_follows_the_same_rule() -> None:
    """As near as those of a single layer are, with a table of 32 entries."""
    problem = small(60, epochs=4, hidden=(4,))
    apart = np.abs(problem.float_outputs() - problem.exact.scoring.astype(np.float64) / 32768)
    assert apart.max() < 0.1
    assert apart.mean() < 0.04


def test_the_float_head_follows_the_same_rule() -> None:
    """Away from ties both give the same classes."""
    problem = small(60, epochs=5)
    scores = np.sort(problem.exact.scoring.astype(np.int64), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 2000
    assert clear.sum() > 20
    same = problem.floating() == problem.exact.scoring.argmax(axis=1)
    assert same[clear].all()
    # It learns: the classes of vertices it has seen often are known.
    labels = problem.problem.graph.labels[problem.learnt]
    assert np.mean(problem.floating()[problem.learnt] == labels) > 0.3


def test_what_cannot_be_is_refused() -> None:
    graph = small().problem.graph
    check_head(graph, 1, 2)
    unknown = labelled(graph, 5, seed=1).relabelled(np.arange(graph.nodes))
    unknown.labels[:] = -1
    for arguments, message in (
        ((graph, 0, 2), "head: learns 0 epochs; expected at least 1"),
        ((graph, -1, 2), "head: learns -1 epochs; expected at least 1"),
        ((graph, 1, 1), "head: there are 1 layers; expected at least 2; it learns from the results before the last"),
        ((unknown, 1, 2), f"graph {graph.name}, train: has no node of known class; expected at least one"),
    ):
        with pytest.raises(InputError) as refused:
            check_head(*arguments)
        assert message in str(refused.value)
    for features, classes in ((60, 5), (6, 40)):
        with pytest.raises(InputError, match=f"head: {features} features and {classes} classes need wm_depth of at"):
            head_of(features, classes, CORE)
    with pytest.raises(
        InputError, match=r"head: has programs of more than 100 words; expected a larger \[neural\] p_depth"
    ):
        head_of(6, 5, replace(CORE, p_depth=100))
    with pytest.raises(InputError, match=r"head: layers \(6, 40, 5\) on 1 x 4 processors need .* words of WM"):
        head_of(6, 5, CORE, hidden=(40,))
    assert head_of(6, 5, CORE, 3).network.weights[0].any()
