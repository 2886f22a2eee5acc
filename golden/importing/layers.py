"""Layers of PyTorch Geometric as parts: what each has, whether or not the machine computes it.

Matrices are [f_in, f_out], the transposes of those in a state dict.
"""

from dataclasses import dataclass

import numpy as np

from golden.model.activation import RELU
from golden.model.float_model import FloatArray

__all__ = [
    "AGGREGATIONS",
    "HEADS",
    "POOLS",
    "Convolution",
    "GATConv",
    "GCNConv",
    "GINConv",
    "GraphConv",
    "Layer",
    "Linear",
    "Norm",
    "Operation",
    "Options",
    "Pool",
    "SAGEConv",
    "Stage",
]

#: What `SAGEConv` and `GraphConv` may do with the rows of the neighbours.
AGGREGATIONS = ("mean", "sum", "max")
#: What `GATConv` may do with its heads.
HEADS = ("concat", "mean")
#: How the rows of a small graph may become one: `global_mean_pool` and `global_add_pool`.
POOLS = ("mean", "sum")


@dataclass(frozen=True)
class Options:
    """Settings that a state dict does not hold; the defaults are those of PyTorch Geometric.

    Attributes
    ----------
    activation
        Between layers and inside perceptrons: a name of `golden.model.activation.FUNCTIONS`.
    act_first
        Whether the activation comes before the normalisation behind a layer.
    aggregation
        Of `SAGEConv` and `GraphConv`: one of `AGGREGATIONS`; None: the mean of the one, the sum of the other.
    heads
        Of a last `GATConv` without bias, whose arrays do not show it: one of `HEADS`.
    negative_slope
        Of the LeakyReLU in `GATConv`.
    norm_eps
        Added to the variances of `BatchNorm`.
    plain_last
        Whether a perceptron in `GINConv` ends without activation.
    self_loops
        Whether the network was trained on ``add_self_loops(edge_index)[0]``.
    pool
        How the rows of every small graph become one, behind the last convolution: one of `POOLS`, or None.
    plain_pool
        Whether no activation stands before that.
    order
        Names of all modules in the order of ``forward``; empty: as names and widths show it.
    """

    activation: str = RELU
    act_first: bool = False
    aggregation: str | None = None
    heads: str = "concat"
    negative_slope: float = 0.2
    norm_eps: float = 1e-5
    plain_last: bool = True
    self_loops: bool = False
    pool: str | None = None
    plain_pool: bool = False
    order: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b: float64 [f_in, f_out] and [f_out]."""

    weight: FloatArray
    bias: FloatArray

    @property
    def f_in(self) -> int:
        """Features that enter."""
        return int(self.weight.shape[0])

    @property
    def f_out(self) -> int:
        """Features that leave."""
        return int(self.weight.shape[1])


@dataclass(frozen=True, eq=False)
class Norm:
    """Batch normalisation of a trained network, x * scale + shift: float64 [f] each."""

    scale: FloatArray
    shift: FloatArray

    def behind(self, linear: Linear) -> Linear:
        """Return a linear map followed by this as one linear map; numbers that overflow become infinite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Linear(linear.weight * self.scale, linear.bias * self.scale + self.shift)


@dataclass(frozen=True, eq=False)
class Stage:
    """Part of a perceptron; the last three attributes are those of `Layer`."""

    linear: Linear
    norm: Norm | None = None
    activation: str | None = None
    act_first: bool = False


@dataclass(frozen=True, eq=False)
class GCNConv:
    """Symmetrically normalised sum over the neighbours and the node, with a self loop added."""

    linear: Linear

    @property
    def f_in(self) -> int:
        """Features that enter."""
        return self.linear.f_in

    @property
    def f_out(self) -> int:
        """Features that leave."""
        return self.linear.f_out


@dataclass(frozen=True, eq=False)
class SAGEConv:
    """Mean, sum or maximum of the neighbours' rows, times `linear`, and the node's row times `root` if there is one."""

    linear: Linear
    root: FloatArray | None
    aggregation: str

    @property
    def f_in(self) -> int:
        """Features that enter."""
        return self.linear.f_in

    @property
    def f_out(self) -> int:
        """Features that leave."""
        return self.linear.f_out


@dataclass(frozen=True, eq=False)
class GraphConv(SAGEConv):
    """The same with a matrix for the node always, and edge weights."""


@dataclass(frozen=True, eq=False)
class GINConv:
    """Perceptron on the sum of the neighbours' rows and (1 + eps) times the node's."""

    stages: tuple[Stage, ...]
    eps: float

    @property
    def f_in(self) -> int:
        """Features that enter."""
        return self.stages[0].linear.f_in

    @property
    def f_out(self) -> int:
        """Features that leave."""
        return self.stages[-1].linear.f_out


@dataclass(frozen=True, eq=False)
class GATConv:
    """Attention over the neighbours and the node.

    Attributes
    ----------
    weight
        float64 [f_in, heads * channels].
    source, destination
        float64 [heads, channels]: attention to the source and the destination of an edge.
    bias
        float64 [f_out]; None: zeros.
    residual
        float64 [f_in, f_out], times the node's own row; or None.
    concat
        Whether the heads stand side by side; otherwise their mean is taken.
    negative_slope
        Of the LeakyReLU on scores.
    """

    weight: FloatArray
    source: FloatArray
    destination: FloatArray
    bias: FloatArray | None
    residual: FloatArray | None
    concat: bool
    negative_slope: float

    @property
    def heads(self) -> int:
        """Attention heads."""
        return int(self.source.shape[0])

    @property
    def f_in(self) -> int:
        """Features that enter."""
        return int(self.weight.shape[0])

    @property
    def f_out(self) -> int:
        """Features that leave."""
        return int(self.source.size if self.concat else self.source.shape[1])

    @property
    def concat_is_open(self) -> bool:
        """Whether no array of the layer shows what is done with the heads."""
        return self.heads > 1 and self.bias is None and self.residual is None


@dataclass(frozen=True)
class Pool:
    """Mean or sum of the rows of every small graph in a batch: one of `POOLS`, and the number of features."""

    kind: str
    width: int

    @property
    def f_in(self) -> int:
        """Features that enter."""
        return self.width

    @property
    def f_out(self) -> int:
        """Features that leave."""
        return self.width


Convolution = GCNConv | SAGEConv | GINConv | GATConv
Operation = Linear | Convolution | Pool


@dataclass(frozen=True, eq=False)
class Layer:
    """A step of a network.

    Attributes
    ----------
    name
        Path of the module in the network.
    operation
        What is computed.
    norm
        Normalisation behind it, or None.
    activation
        Behind it, or None.
    act_first
        Whether the activation comes before the normalisation.
    """

    name: str
    operation: Operation
    norm: Norm | None = None
    activation: str | None = None
    act_first: bool = False
