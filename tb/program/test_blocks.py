"""Blocks of columns and rows of any size give the bits of one block: the commands of images, carried out in NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import Combination, Model
from contracts.errors import InputError
from contracts.weights import WeightRoom
from golden.image import build_image
from golden.model.network import infer
from sim.problems import random_graph, random_problem
from tb.program.images import check_image
from tb.program.interpreter import executed


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 150),
    st.lists(st.integers(1, 70), min_size=1, max_size=2),
    st.sampled_from([1, 4, 8, 16]),
    st.integers(1, 40),
    st.sampled_from([16, 24, 40, 64]),
    st.sampled_from(list(Model)),
    st.booleans(),
    st.integers(0, 99),
)
def test_blocks_of_any_size_give_the_same_bits(
    f_in: int, widths: list[int], lanes: int, rows: int, columns: int, model: Model, dense: bool, seed: int
) -> None:
    graph = random_graph(seed, 7, 20, f_in, 1.0 if dense else 0.3)
    problem = random_problem(graph, model, widths, seed)
    try:
        image = build_image(problem, WeightRoom(lanes, 16 * rows, columns))
    except InputError:
        return
    check_image(image)
    memory = executed(image)
    for number, exact in enumerate(infer(problem)):
        region = image.results_region(number)
        assert np.array_equal(image.rows(region, memory[region.address :]), exact.results)


def test_the_largest_number_of_features_is_combined_in_blocks() -> None:
    """Of 65,536, the sums reach 46 bits."""
    graph = random_graph(3, 3, 4, 1 << 16, 1.0)
    problem = random_problem(graph, Model.SAGE, [2], 3)
    image = build_image(problem, WeightRoom(16, 2048, 64))
    kinds = [command.fields.get("kind") for command in image.commands]
    assert kinds.count(Combination.DIGITS) == 32
    memory, region = executed(image), image.results_region(0)
    assert np.array_equal(image.rows(region, memory[region.address :]), infer(problem)[0].results)
