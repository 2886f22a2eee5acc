"""What refuses a run before anything is trained: sizes of the machine, the graph, and what is asked of both.

A run without RTL is refused for the same reasons, so that it says what the machine would do.
"""

from collections.abc import Iterator
from dataclasses import replace

from contracts.errors import InputError, unknown
from contracts.weights import GRANULE
from golden.dnp.head import Head
from golden.graph import Graph
from golden.head import check_head, head_of
from golden.model.float_model import FloatModel
from golden.model.quantise import outline
from golden.model.training import learnable, untrained
from hw.config import MachineConfig
from hw.host.hosted import Hosted
from hw.machine import machine_of
from scripts.config import load_machine, names
from scripts.flows.batch import plan_batches
from scripts.flows.request import Request
from scripts.flows.session import session_of
from scripts.flows.simulations import PLACEMENTS, images_of, place

__all__ = ["check", "head_wanted", "shape_of", "used"]


def check(request: Request, graph: Graph, network: FloatModel | None, sizes: MachineConfig) -> None:
    """Refuse a run that the machine cannot carry out.

    Parameters
    ----------
    request, graph
        What was asked for.
    network
        That of a weight file; None: it is to be trained.
    sizes
        The machine.

    Raises
    ------
    InputError
        Naming the key of the configuration file that bounds it, and a named configuration that would do, if there is
        one.
    """
    shape = network or shape_of(request, graph)
    if graph.graph_of is not None:
        _check_batch(request)
    try:
        _try(request, graph, shape, sizes)
    except InputError as error:
        other = next(_that_would_do(request, graph, shape, sizes), None)
        if other is None:
            raise
        raise InputError(error.where, error.what, f"{error.expected}, or --config {other}") from None


def _check_batch(request: Request) -> None:
    """Refuse what does not go with a batch of small graphs."""
    for option, asked in (("--head", request.head is not None), ("--batch", request.sampling is not None)):
        if asked:
            raise InputError(option, "classifies nodes, but the data set is a batch of small graphs", "one graph")


def used(sizes: MachineConfig, ends: bool, head: bool, batches: bool) -> MachineConfig:
    """Return the machine without the units that a run has nothing to do for.

    Parameters
    ----------
    sizes
        The machine as configured.
    ends, head, batches
        Whether layers end on the neural chip, a head learns there, and mini-batches are sampled.
    """
    neural, attributes = sizes.neural if ends or head else None, sizes.attributes if batches else None
    return replace(sizes, neural=neural, attributes=attributes)


def head_wanted(request: Request, graph: Graph, network: FloatModel, sizes: MachineConfig) -> Head | None:
    """Return the head that was asked for, if one was.

    Raises
    ------
    InputError
        If there is no neural chip for it, or it or what it learns from does not fit.
    """
    if request.head is None:
        return None
    check_head(graph, request.head, len(network.weights))
    neural = sizes.neural
    if neural is None:
        raise _lacks(request, "neural", "neural chip for a head")
    return head_of(network.weights[-1].shape[0], graph.classes, neural.core, request.seed, request.head_hidden)


def shape_of(request: Request, graph: Graph) -> FloatModel:
    """Return a network of the shape that training will give it."""
    how = request.training
    learnable(graph)
    if not graph.feature_count:
        raise InputError(f"graph {graph.name}, features", "there are none", "at least one a node")
    return untrained(graph, request.network, how)


def _try(request: Request, graph: Graph, network: FloatModel, sizes: MachineConfig) -> None:
    """Refuse what does not fit; `network` has the shapes of the one that will run."""
    community = sizes.community
    if request.placement not in (None, *PLACEMENTS):
        raise unknown("placement", request.placement, PLACEMENTS, " or ".join(PLACEMENTS))
    if request.placement == "communities" and sizes.chiplets == 1 and community is None:
        raise InputError("--placement", "does nothing on one chiplet with gather PEs", "several --chiplets")
    _check_layers(network, sizes)
    neural = sizes.neural
    problem = outline(network, graph, core=neural.core if neural else None)
    if problem.model.ends and neural is None:
        raise _lacks(request, "neural", f"neural chip for {network.activation}")
    head = head_wanted(request, graph, network, sizes)
    placed = place(sizes, problem, request.sharing, request.choice)
    sizes = used(sizes, bool(problem.model.ends), head is not None, request.sampling is not None)
    if request.sampling:
        plan_batches(request.sampling, placed, sizes, request.config, request.seed)
    session_of(request, problem, network, sizes)
    # The memory's images are laid out, and refused if a vertex with its neighbours has no room on the chip.
    images_of(sizes, placed, hidden=head is not None)
    try:
        Hosted(machine_of(sizes.chiplet, sizes.units, sizes.ring))
    except ValueError as error:
        raise InputError(f"configuration {request.config}", str(error), "sizes that fit together") from None


def _that_would_do(request: Request, graph: Graph, network: FloatModel, sizes: MachineConfig) -> Iterator[str]:
    """Yield named configurations that the run fits: of the same kind first, the default one, then the smallest."""

    def cost(name: str) -> tuple[bool, bool, int, int]:
        found = others[name]
        chiplet, other_kind = found.chiplet, found.chiplet.kind != sizes.chiplet.kind
        return other_kind, name != Request.config, chiplet.lanes * found.chiplets, chiplet.pe.weight_rows

    others = {name: load_machine(name, request.chiplets) for name in names() if name != request.config}
    for name in sorted(others, key=cost):
        try:
            _try(request, graph, network, others[name])
        except InputError:
            continue
        yield name


def _check_layers(network: FloatModel, sizes: MachineConfig) -> None:
    """Refuse a layer that the PEs have no room for; the hardware would refuse it too."""
    pe, section = sizes.chiplet.pe, "community" if sizes.community else "pe"
    for number, weight in enumerate(network.weights):
        try:
            pe.weight_room.blocks(*weight.shape)
        except InputError as error:
            key = "max_out" if pe.max_out < min(weight.shape[1], GRANULE) else "weight_rows"
            raise InputError(f"layer {number}", error.what, f"{error.expected} ([{section}] {key})") from None


def _lacks(request: Request, section: str, what: str) -> InputError:
    return InputError(f"configuration {request.config}", f"has no {what}", f"one with a section {section}")
