"""The image of a chiplet with gather PEs that works alone."""

from contracts.weights import WeightRoom
from golden.image_format import PART_ROWS, Image, Region, row_bytes
from golden.model.network import Problem
from golden.program.chiplet import Owned, by_topology, chiplet_image

__all__ = ["PART_ROWS", "Image", "Region", "build_image", "row_bytes"]


def build_image(problem: Problem, weight_room: WeightRoom | None = None, scratch_lines: int = 0) -> Image:
    """Image of one chiplet that owns the whole graph.

    Parameters
    ----------
    problem
        Network and graph.
    weight_room, scratch_lines
        As for `golden.program.chiplet.chiplet_image`.

    Raises
    ------
    InputError
        If it would be larger than 2^32 lines.
    """
    owned = by_topology(problem, lambda each: Owned.whole(each.graph))
    return chiplet_image(
        problem, owned, lambda count: [range(count)], weight_room=weight_room, scratch_lines=scratch_lines
    )
