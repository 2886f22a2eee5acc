"""The part of a run before anything is computed: load, check, train or read weights, quantise, place."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from golden.datasets import load
from golden.dnp.head import Head
from golden.graph import Graph
from golden.model.float_model import FloatModel
from golden.model.hints import hints, hints_of_weights
from golden.model.network import Problem
from golden.model.quantise import quantise
from golden.model.training import train
from golden.model.weights import model_of, read_weights
from hw.community.chiplet import MachineConfig
from scripts.config import Sizes
from scripts.flows.checks import check, head_wanted, used
from scripts.flows.request import Request
from scripts.flows.simulations import Placed, place

__all__ = ["Prepared", "prepare"]


class Prepared(NamedTuple):
    """A network as trained, quantised and shared out to the chiplets.

    Attributes
    ----------
    sizes
        The machine, with the units beside each chiplet that the run uses.
    graph, network, problem
        The data set, the float network, and its integers on the graph.
    head
        The classifier that learns on the neural chip, or None.
    placed
        The same problem, VIDs and rows in the order of the chiplets that own them.
    """

    sizes: Sizes
    graph: Graph
    network: FloatModel
    problem: Problem
    head: Head | None
    placed: Placed


def prepare(
    request: Request,
    sizes: Sizes,
    stage: Callable[[str], None] = lambda name: None,
    hint: Callable[[str], None] = lambda line: None,
) -> Prepared:
    """Prepare a run.

    Parameters
    ----------
    request, sizes
        What was asked for, and the machine.
    stage
        Called with the name of each step as it begins.
    hint
        Called with each line about input that can be run and is probably not what was meant.

    Raises
    ------
    InputError
        If the data set, weights or configuration cannot be used, before anything is trained.
    """
    stage("data set")
    neural = sizes.units.neural
    graph = load(request.dataset)
    asked = model_of(request.model) if request.model else None
    given = read_weights(str(request.model_file), asked, graph) if request.model_file else None
    for line in hints(graph) + (hints_of_weights(given, graph) if given else []):
        hint(line)
    check(request, graph, given, sizes)
    stage("training" if given is None else "weights")
    network = given or train(graph, request.network, request.training)
    stage("quantisation")
    problem = quantise(network, graph, core=neural.core if neural else None)
    head = head_wanted(request, graph, network, sizes)
    community = sizes.chiplet if isinstance(sizes.chiplet, MachineConfig) else None
    placed = place(problem, sizes.chiplets, request.placement, community, request.choice)
    sizes = used(sizes, bool(problem.model.ends), head is not None, request.sampling is not None)
    return Prepared(sizes, graph, network, problem, head, placed)
