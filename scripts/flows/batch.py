"""Mini-batches of a sampled network: train, quantise, sample, fetch through the cache and compute in RTL, compare."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from golden.attributes.batch import BatchImage, batch_results, batches_of, dense
from golden.attributes.orders import ORDERS
from golden.attributes.sampler import Plan
from golden.contracts import Error
from golden.datasets import load
from golden.errors import InputError
from golden.graph import Graph, IntArray
from golden.image import row_bytes
from golden.model.activation import RELU
from golden.model.float_model import accuracy
from golden.model.network import Problem, predictions
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of, read_weights
from hw.attributes.core import CoreConfig
from hw.attributes.formats import AttributeConfig
from scripts.config import load_config, load_ring
from scripts.flows.table import show
from tb.attributes.batch_jobs import Ran, run_batches

__all__ = ["BatchRequest", "parse_fan_out", "run"]


@dataclass(frozen=True)
class BatchRequest:
    """What `atoll run --batch` was asked for.

    Attributes
    ----------
    dataset, model, config, hidden, seed, model_file, rtl, out
        As for `scripts.flows.run.Request`.
    batch
        Roots of a batch.
    fan_out
        Of every hop; as many hops as the network has layers.
    order
        Of the roots: a name of `golden.attributes.orders.ORDERS`.
    slotted
        Target addresses by position, not by hash.
    """

    dataset: str
    model: str | None
    config: str
    hidden: int
    seed: int
    model_file: Path | None
    rtl: bool
    out: Path
    batch: int
    fan_out: tuple[int, ...]
    order: str = "ID"
    slotted: bool = True


def parse_fan_out(text: str) -> tuple[int, ...]:
    """Fan-outs of ``10,10``.

    Raises
    ------
    InputError
        If it is not a list of numbers.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError("fan-out", f"is {text!r}", "numbers with commas between them, such as 10,10") from None


def run(request: BatchRequest) -> dict[str, Any]:
    """Carry out a request.

    Returns
    -------
    dict
        What is in ``result.json``; ``bit_exact`` is False if a value or a sample differs, None without RTL.

    Raises
    ------
    InputError
        If the data set, weights or configuration cannot be used.
    """
    if request.batch < 1:
        raise InputError("batch", f"is {request.batch}", "at least 1 root")
    if request.order not in ORDERS:
        raise InputError("order", f"there is no {request.order!r}", f"one of {', '.join(ORDERS)}")
    config, core = load_config(request.config), _core(request.config)
    graph = load(request.dataset)
    plan = Plan(request.fan_out, seed=request.seed)
    if request.model_file is not None:
        network = read_weights(str(request.model_file), model_of(request.model or "sage"))
    else:
        how = Training(layers=len(plan.fan_out), hidden=request.hidden, seed=request.seed)
        network = train(graph, model_of(request.model or "sage"), how)
    if network.activation != RELU:
        raise InputError("mini-batches", f"of a network with {network.activation}", f"{RELU} between its layers")
    problem = quantise(network, graph)
    roots = _roots(graph, request.order)
    _check_fits(problem, plan, request.batch, core)
    image = BatchImage(problem, plan, request.batch, request.slotted)
    batches = list(batches_of(roots, request.batch))
    exact = [batch_results(problem, mine, plan, number) for number, mine in enumerate(batches)]
    ran: list[Ran] = []
    seconds = None
    if request.rtl:
        folder = request.out / "simulation"
        folder.mkdir(parents=True, exist_ok=True)
        ran, simulation = run_batches(config, core, image, batches, folder)
        seconds = simulation.seconds
    differences = [line for number, out in enumerate(ran) for line in _differences(number, out, *exact[number])]
    classes = predictions(np.concatenate([rows for _, rows in exact]))
    labelled = np.full(graph.nodes, -1, dtype=np.int64)
    labelled[roots] = classes
    mine = np.zeros(graph.nodes, dtype=np.bool_)
    mine[roots] = True
    flows = {name: sum(out.batch[name] for out in ran) for name in ("in_place", "cached", "moved", "missed")}
    cycles = [sum(out.cycles[part] for out in ran if len(out.cycles) > part) for part in range(2)]
    result: dict[str, Any] = {
        "dataset": {"name": graph.name, "nodes": graph.nodes, "edges": graph.edge_count},
        "model": {"name": "sage", "layers": [[layer.f_in, layer.f_out] for layer in problem.model.layers]},
        "batch": {
            "size": request.batch,
            "fan_out": list(plan.fan_out),
            "order": request.order,
            "batches": len(batches),
            "simulated": len(ran),
            "positions": sum(batch.nodes.size for batch, _ in exact),
        },
        "bit_exact": not differences if ran else None,
        "differences": differences if ran else None,
        "cycles": sum(cycles) if ran else None,
        "cycles_by_phase": {"sample": cycles[0], "layers": cycles[1]} if ran else None,
        "attribute_cache": {
            "requests": sum(flows.values()),
            "misses": flows["missed"],
            **flows,
            "slots": core.attribute.slots,
            "ways": core.attribute.ways,
            "policy": core.attribute.policy.name.lower(),
            "sub_batches": sum(-(-out.batch["positions"] // core.attribute.slots) for out in ran),
        }
        if ran
        else None,
        "external_bytes": {
            kind: sum(out.counters[f"bytes_{kind}"] for out in ran) if ran else None for kind in ("read", "written")
        },
        "accuracy": {
            "float": accuracy(network.predictions(graph), graph, mine),
            "machine": accuracy(labelled, graph, mine),
        },
        "simulation": {"wall_seconds": seconds, "cycles_per_second": sum(cycles) / seconds if seconds else None},
        "seed": request.seed,
    }
    request.out.mkdir(parents=True, exist_ok=True)
    path = request.out / "result.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    _print(result, path)
    return result


def _core(name: str) -> CoreConfig:
    """Sizes of the attribute core of a configuration; the source's if it has none."""
    sizes = load_ring(name, 1)
    address_width, data_width = sizes.chiplet.port
    return sizes.attributes or CoreConfig(AttributeConfig(address_width=address_width, data_width=data_width))


def _roots(graph: Graph, order: str) -> IntArray:
    """Nodes of the test set, or all if there is none, in an order."""
    chosen = graph.test if graph.test.any() else np.ones(graph.nodes, dtype=np.bool_)
    nodes: IntArray = ORDERS[order](graph)
    return nodes[chosen[nodes]]


def _check_fits(problem: Problem, plan: Plan, size: int, core: CoreConfig) -> None:
    """Refuse what the machine has no room for; the hardware would refuse it too."""
    attribute = core.attribute
    wanted, room = row_bytes(dense(problem).shape[1]), attribute.row_beats * attribute.data_width // 8
    if wanted > room:
        raise InputError("features", f"a row has {wanted} bytes", f"at most {room} (attribute rows)")
    if problem.graph.nodes > 1 << attribute.id_bits:
        raise InputError("nodes", f"there are {problem.graph.nodes}", f"at most {1 << attribute.id_bits}")
    for fan_out in plan.fan_out:
        if fan_out > core.most:
            raise InputError("fan-out", f"is {fan_out}", f"at most {core.most}")
    inner = replace(plan, fan_out=plan.fan_out[:-1], negatives=0).most(size)
    if inner > core.frontier:
        raise InputError("batch", f"of {size} roots expands {inner} positions", f"at most {core.frontier}")
    if plan.most(size) > 1 << attribute.tag_bits:
        raise InputError("batch", f"has {plan.most(size)} positions", f"at most {1 << attribute.tag_bits}")


def _differences(number: int, out: Ran, batch: Any, rows: Any) -> list[str]:
    for said in out.completions:
        if said["error"]:
            return [f"batch {number} ended with {Error(said['error']).name}, info {said['info']:#x}"]
    if not np.array_equal(out.nodes, batch.nodes):
        return [f"batch {number}: other nodes were sampled"]
    if not np.array_equal(out.results, rows):
        return [f"batch {number}: {int((out.results != rows).sum())} of {rows.size} values differ"]
    return []


def _print(result: dict[str, Any], path: Path) -> None:
    data, batch = result["dataset"], result["batch"]
    rows = [
        ("graph", f"{data['name']}: {data['nodes']:,} nodes, {data['edges']:,} edges"),
        (
            "mini-batches",
            f"{batch['batches']} of {batch['size']} roots in {batch['order']} order, fan-out "
            f"{', '.join(map(str, batch['fan_out']))}: {batch['positions']:,} positions; "
            f"{batch['simulated']} simulated",
        ),
    ]
    if result["attribute_cache"]:
        cache, phases = result["attribute_cache"], result["cycles_by_phase"]
        rows += [
            (
                "cycles",
                f"{result['cycles']:,}: sampling and attributes {phases['sample']:,}, layers {phases['layers']:,}",
            ),
            (
                "attribute cache",
                f"{cache['requests']:,} requests in {cache['sub_batches']} sub-batches of {cache['slots']}: "
                f"{cache['missed']:,} missed, {cache['in_place']:,} in place, {cache['cached']:,} in the cache, "
                f"{cache['moved']:,} moved",
            ),
            (
                "external bytes",
                f"{result['external_bytes']['read']:,} read, {result['external_bytes']['written']:,} written",
            ),
            ("simulation", f"{result['simulation']['wall_seconds']:.1f} s"),
        ]
    figures = result["accuracy"]
    rows += [
        ("accuracy", f"machine {figures['machine']:.2%}, float without sampling {figures['float']:.2%}"),
        ("bit-exact", {None: "not simulated", True: "yes", False: "NO"}[result["bit_exact"]]),
        ("details", str(path)),
    ]
    show("atoll run", ("", ""), rows)
    for line in result["differences"] or ():
        print(line)
