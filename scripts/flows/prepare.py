"""The part of a run before anything is computed: read and check the input, then train, quantise and place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from contracts import Split
from golden.datasets import load
from golden.dnp.head import Head
from golden.graph import Graph
from golden.importing.importer import read_network
from golden.model.float_model import FloatModel
from golden.model.hints import hints, hints_of_weights
from golden.model.network import Problem
from golden.model.quantise import quantise
from golden.model.topology import topologies_of
from golden.model.training import train
from golden.model.weights import model_of
from hw.config import MachineConfig
from scripts.config import load_machine
from scripts.flows.checks import check, head_wanted, shape_of, used
from scripts.flows.request import Request
from scripts.flows.simulations import Placed, place

__all__ = ["Examined", "Prepared", "examine", "prepare"]

#: Configuration for networks that community PEs do not compute.
_GATHERING = "default"


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

    sizes: MachineConfig
    graph: Graph
    network: FloatModel
    problem: Problem
    head: Head | None
    placed: Placed


class Examined(NamedTuple):
    """The input of a run, which the machine can carry out.

    Attributes
    ----------
    request, sizes
        What is carried out, and the machine: another one if the chosen one has no PEs for the network.
    graph
        The data set.
    network
        That of the weight file; None: it is to be trained.
    hints
        A line for each thing that can be run and is probably not what was meant, or that a state dict does not hold.
    """

    request: Request
    sizes: MachineConfig
    graph: Graph
    network: FloatModel | None
    hints: list[str]


def examine(request: Request, sizes: MachineConfig) -> Examined:
    """Read the input of a run, and refuse what cannot be carried out.

    Parameters
    ----------
    request, sizes
        What was asked for, and the machine.

    Raises
    ------
    InputError
        If the data set, weights or configuration cannot be used.
    """
    graph = load(request.dataset)
    if not request.edge_weights:
        graph = graph.unweighted
    if not request.edge_attributes:
        graph = graph.without_edge_attributes
    asked = model_of(request.model) if request.model else None
    given, said = None, hints(graph)
    if request.model_file:
        given, notes = read_network(str(request.model_file), asked, graph)
        said += notes + hints_of_weights(given, graph)
    sums = _sums_asked_for(request, sizes)
    if (sizes.community or sums) and (reason := _shares_nothing(given or shape_of(request, graph), graph)):
        # Every edge has a factor of its own, so there are no sums to share.
        if sizes.community:
            said.append(f"{reason}: computed by gather PEs, configuration {_GATHERING} in place of {request.config}")
            request = replace(request, config=_GATHERING)
            gathering = load_machine(_GATHERING, sizes.chiplets)
            sizes = replace(gathering, matching=sizes.matching, split=sizes.split)
        if sums:
            said.append(f"{reason}: rows of neighbours travel, and no partial sums of {sums}")
    check(request, graph, given, sizes)
    return Examined(request, sizes, graph, given, said)


def _shares_nothing(network: FloatModel, graph: Graph) -> str | None:
    """Return why a network has no sums that vertices or chiplets could share, or None."""
    for number, layer in enumerate(network.layers):
        if layer.attention:
            return f"layer {number} computes attention"
    weighted = any(topology.weighted for topology in topologies_of(network.layers, graph))
    return f"edges of {graph.name} have weights" if weighted else None


def _sums_asked_for(request: Request, sizes: MachineConfig) -> str | None:
    """Return the vertices whose partial sums would travel on the ring, or None."""
    if sizes.ring is None:
        return None
    if sizes.split == Split.SOURCE:
        return "vertices"
    return "hubs" if request.placement == "communities" else None


def prepare(examined: Examined, stage: Callable[[str], None] = lambda name: None) -> Prepared:
    """Train a network if none is given, quantise it and share it out.

    Parameters
    ----------
    examined
        What is carried out, the machine, and the input.
    stage
        Called with the name of each step as it begins.

    Raises
    ------
    InputError
        If the network cannot be quantised.
    """
    request, sizes, graph, network = examined.request, examined.sizes, examined.graph, examined.network
    neural = sizes.neural
    if network is None:
        stage("training")
        network = train(graph, request.network, request.training)
    stage("quantisation")
    problem = quantise(network, graph, calibration=request.calibration, core=neural.core if neural else None)
    head = head_wanted(request, graph, network, sizes)
    placed = place(sizes, problem, request.sharing, request.choice)
    sizes = used(sizes, bool(problem.model.ends), head is not None, request.sampling is not None)
    return Prepared(sizes, graph, network, problem, head, placed)
