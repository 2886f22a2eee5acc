"""A recognised network as one that the machine computes; the parts that it does not have are named."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from contracts import Model
from contracts.attention import Heads
from contracts.errors import InputError
from golden.importing.layers import (
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    Linear,
    Norm,
    Operation,
    Options,
    Pool,
    SAGEConv,
    Stage,
)
from golden.model.activation import RELU
from golden.model.float_model import FloatLayer, FloatModel, Reach
from golden.model.heads import attention_layer, behind, merged

__all__ = ["Converted", "RefusalsError", "convert"]


class RefusalsError(InputError):
    """Several parts of a network that cannot be used; as text the first of them.

    Parameters
    ----------
    errors
        At least one.
    """

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__(errors[0].where, errors[0].what, errors[0].expected)
        self.errors = tuple(errors)


class Converted(NamedTuple):
    """A network as the machine computes it.

    Attributes
    ----------
    network
        Its layers.
    names
        Of each of them the module that it computes, or that it ends with if it computes several.
    """

    network: FloatModel
    names: tuple[str, ...]


class _Step(NamedTuple):
    """A layer of the machine.

    Attributes
    ----------
    layer
        What it computes.
    name
        Module that it belongs to.
    joins
        Whether it may become one with the next: it has no activation, and no matrix of the user's own.
    heads
        Where the features lie in its rows, if it computes attention.
    """

    layer: FloatLayer
    name: str
    joins: bool = False
    heads: Heads | None = None


def convert(path: str, layers: Sequence[Layer], options: Options) -> Converted:
    """Return the network in layers of the machine, as few as are exact.

    Parameters
    ----------
    path
        File, for messages.
    layers
        Network.
    options
        How it was recognised.

    Raises
    ------
    RefusalsError
        If it has layers that the machine does not compute: an error for each, with the way out.
    InputError
        If a number is not finite once norms are folded.
    """
    found = [
        InputError(f"{path}, {layer.name}" if layer.name else path, what, expected)
        for layer in layers
        for what, expected in _faults(layer, options)
    ]
    if found:
        raise RefusalsError(found)
    steps: list[_Step] = []
    for layer in layers:
        try:
            for part in (layer.operation, *_inside(layer.operation), *_end(layer)):
                _add(steps, layer.name, part, options)
        except InputError as error:
            raise InputError(f"{path}, {layer.name}", error.what, error.expected) from None
    if (heads := steps[-1].heads) is not None:
        # The class of a node is the position of its largest feature: scores must not stand between.
        steps.append(_Step(merged(heads, np.zeros(heads.heads * heads.channels), mean=False), layers[-1].name))
    joined = _joined(steps)
    return Converted(FloatModel(tuple(step.layer for step in joined)), tuple(step.name for step in joined))


def _faults(layer: Layer, options: Options) -> Iterator[tuple[str, str]]:
    """Yield what the machine does not compute, and what it would."""
    match layer.operation:
        case SAGEConv(aggregation="max"):
            yield "takes the maximum of the neighbours", "aggr='mean' or 'sum'"
        case SAGEConv(_, root, "mean") if root is not None and options.self_loops:
            what = "has a weight of its own for the node (root_weight=True) beside a self loop in the mean"
            yield what, "training without add_self_loops, or with root_weight=False"
        case GATConv(residual=residual) if residual is not None:
            yield "adds the node's own row to attention (residual=True)", "GATConv(..., residual=False)"


def _add(steps: list[_Step], name: str, part: Operation | Norm | str, options: Options) -> None:
    """Add a part of a network: to the last step, or as steps of its own."""
    last = steps[-1] if steps else None
    match part:
        case Norm() if last is not None and last.layer.activation is None:
            steps[-1] = last._replace(layer=_folded(last, part))
            return
        case str() if last is not None and last.layer.activation is None:
            steps[-1] = last._replace(layer=replace(last.layer, activation=part), joins=False)
            return
        case str() if last is not None and part == last.layer.activation == RELU:
            return
        case Norm(scale, shift):
            new = [_Step(FloatLayer(np.diag(scale), shift, reach=Reach.NODE), name, joins=True)]
        case str():
            assert last is not None
            width = last.layer.f_out if last.heads is None else last.heads.heads * last.heads.channels
            same = FloatLayer(np.eye(width), np.zeros(width), reach=Reach.NODE, activation=part)
            new = [_Step(same, name)]
        case GATConv():
            new = _attention(part, name)
        case _:
            new = [_Step(_layer(part, options), name, isinstance(part, Pool))]
    if last is not None and last.heads is not None:
        new[0] = new[0]._replace(layer=behind(last.heads, new[0].layer))
    steps += new


def _layer(operation: Operation, options: Options) -> FloatLayer:
    """Return a layer without attention, of a perceptron the first part."""
    match operation:
        case Linear(weight, bias):
            return FloatLayer(weight, bias, reach=Reach.NODE)
        case GCNConv(linear):
            return FloatLayer(linear.weight, linear.bias)
        case SAGEConv(linear, root, aggregation):
            model = Model.SAGE if aggregation == "mean" else Model.GIN
            # -1 leaves the node itself out, and a self loop adds it once more: beside a matrix of its own, to that.
            eps = float(options.self_loops) - 1
            if root is not None and options.self_loops:
                root, eps = root + linear.weight, -1
            return FloatLayer(linear.weight, linear.bias, model, eps, root=root)
        case GINConv(stages, eps):
            linear = stages[0].linear
            return FloatLayer(linear.weight, linear.bias, Model.GIN, eps + options.self_loops)
        case Pool(kind, width):
            model = Model.SAGE if kind == "mean" else Model.GIN
            return FloatLayer(np.eye(width), np.zeros(width), model, reach=Reach.MEMBERS)
        case _:
            raise AssertionError(operation)


def _attention(layer: GATConv, name: str) -> list[_Step]:
    """Return attention, and behind it the mean of several heads."""
    heads, bias = Heads(*layer.source.shape), np.zeros(layer.f_out) if layer.bias is None else layer.bias
    whole = bias if bias.size == layer.source.size else np.zeros(layer.source.size)
    summing = attention_layer(layer.weight, layer.source, layer.destination, whole, layer.negative_slope)
    if layer.concat or heads.heads == 1:
        return [_Step(summing, name, heads=heads)]
    return [_Step(summing, name), _Step(merged(heads, bias, mean=True), name, joins=True)]


def _folded(step: _Step, norm: Norm) -> FloatLayer:
    """Return a layer without activation followed by a norm as one layer; scores stay as they are."""
    layer = step.layer
    if step.heads is not None:
        scale, shift = np.ones(layer.f_out), np.zeros(layer.f_out)
        scale[step.heads.places()], shift[step.heads.places()] = norm.scale, norm.shift
        norm = Norm(scale, shift)
    linear = norm.behind(Linear(layer.weight, layer.bias))
    root = None if layer.root is None else norm.behind(Linear(layer.root, layer.bias)).weight
    return replace(layer, weight=linear.weight, bias=linear.bias, root=root)


def _inside(operation: Operation) -> Iterator[Linear | Norm | str]:
    """Yield what stands in a perceptron behind its first matrix."""
    if isinstance(operation, GINConv):
        for number, stage in enumerate(operation.stages):
            if number:
                yield stage.linear
            yield from _end(stage)


def _end(part: Layer | Stage) -> Iterator[Norm | str]:
    """Yield norm and activation in the order in which they compute."""
    both = (part.activation, part.norm) if part.act_first else (part.norm, part.activation)
    yield from (each for each in both if each is not None)


def _joined(steps: Sequence[_Step]) -> list[_Step]:
    """Return the steps with those that may become one with the next so where that is exact."""
    joined: list[_Step] = []
    for step in steps:
        before, after = (joined[-1] if joined else None), step.layer
        if before is not None and before.joins and (after.reach == Reach.NODE or _averages(after, before.layer)):
            first = joined.pop().layer
            reach, model = (first.reach, first.model) if after.reach == Reach.NODE else (after.reach, after.model)
            bias = first.bias @ after.weight + after.bias
            after = replace(after, weight=first.weight @ after.weight, bias=bias, reach=reach, model=model)
        joined.append(step._replace(layer=after))
    return joined


def _averages(after: FloatLayer, before: FloatLayer) -> bool:
    """Return whether a bias before a layer adds to every result the same: the weights of the rows have the sum 1."""
    return before.reach == Reach.NODE and after.model == Model.SAGE and after.eps == 0
