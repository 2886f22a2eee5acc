"""Networks of PyTorch Geometric, as users define them: what the fixtures are made of. Importing this needs PyTorch."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE

from tb.importing.graphs import results_of

__all__ = ["NETWORKS", "Network", "logits", "trained"]

_RATE, _DECAY = 0.01, 5e-4


class Network(NamedTuple):
    """A network and how it is read.

    Attributes
    ----------
    graph
        What it is trained on: a name for `tb.importing.graphs.graph_of`.
    make
        From numbers of features and classes.
    options
        Those that its state dict needs, as for `golden.importing.layers.Options`.
    runs
        Layers of the machine that compute it, as `golden.model.weights.KINDS` names them; empty: none do.
    """

    graph: str
    make: Callable[[int, int], nn.Module]
    options: Mapping[str, Any] = {}
    runs: str = ""


#: Convolutions that take the weights of edges.
_WEIGHTED = (pyg.GCNConv, pyg.GraphConv)


class _Chain(nn.Module):
    """Convolutions and Linears by name, each followed by its norm, an activation and dropout, but for the last.

    With a pooling, that stands before the first Linear behind a convolution, plain: without activation before it.
    """

    def __init__(
        self,
        parts: Mapping[str, nn.Module],
        norms: Mapping[str, str],
        act: Callable[[Any], Any],
        pool: Callable[..., Any] | None,
        plain: bool,
    ) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.names = [name for name in parts if name not in norms.values()]
        self.norms, self.act, self.pool, self.plain = dict(norms), act, pool, plain
        dense = [isinstance(getattr(self, name), nn.Linear | pyg.Linear) for name in self.names]
        self.last = max(number for number, is_dense in enumerate(dense) if not is_dense)

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None, batch: Any = None) -> Any:
        for number, name in enumerate(self.names):
            part = getattr(self, name)
            if isinstance(part, nn.Linear | pyg.Linear):
                x = part(x)
            elif isinstance(part, _WEIGHTED):
                x = part(x, edge_index, edge_weight)
            else:
                x = part(x, edge_index)
            if name in self.norms:
                x = getattr(self, self.norms[name])(x)
            if name != self.names[-1] and not (self.plain and number == self.last):
                x = nn.functional.dropout(self.act(x), 0.2, self.training)
            if self.pool is not None and number == self.last:
                x = self.pool(x, batch)
        return x


def _chain(
    act: Callable[[Any], Any] = torch.relu,
    norms: Mapping[str, str] | None = None,
    pool: Callable[..., Any] | None = None,
    plain: bool = False,
    **parts: nn.Module,
) -> Any:
    return _Chain(parts, norms or {}, act, pool, plain)


def _sequential(f: int, c: int) -> Any:
    return pyg.Sequential(
        "x, edge_index",
        [
            (pyg.GCNConv(f, 12), "x, edge_index -> x"),
            pyg.BatchNorm(12),
            nn.ReLU(),
            nn.Dropout(0.2),
            (pyg.GCNConv(12, c), "x, edge_index -> x"),
        ],
    )


def _mixed(f: int, c: int) -> Any:
    return pyg.Sequential(
        "x, edge_index",
        [
            (pyg.GCNConv(f, 12), "x, edge_index -> x"),
            nn.ReLU(),
            (_plain_sage(12, 8), "x, edge_index -> x"),
            (pyg.GINConv(nn.Linear(8, 8), eps=0.5), "x, edge_index -> x"),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Linear(8, c),
        ],
    )


def _perceptron(f: int, h: int) -> Any:
    return nn.Sequential(nn.Linear(f, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())


def _plain_sage(f: int, c: int, **how: Any) -> Any:
    return pyg.SAGEConv(f, c, root_weight=False, **how)


#: By name.
NETWORKS: Mapping[str, Network] = {
    "gcn-digits": Network(
        "digits", lambda f, c: _chain(conv1=pyg.GCNConv(f, 16), conv2=pyg.GCNConv(16, c)), {}, "gcn gcn"
    ),
    "gcn-norm-karate": Network(
        "karate", lambda f, c: GCN(f, 12, 3, c, norm="batch_norm", dropout=0.2), {}, "gcn gcn gcn"
    ),
    "gcn-sequential-karate": Network("karate", _sequential, {}, "gcn gcn"),
    "gcn-tanh-directed": Network(
        "karate-directed", lambda f, c: GCN(f, 12, 2, c, act="tanh", bias=False), {"activation": "tanh"}, "gcn gcn"
    ),
    "sage-loops-digits": Network(
        "digits",
        lambda f, c: _chain(
            norms={"conv1": "bn1"}, conv1=_plain_sage(f, 16), bn1=pyg.BatchNorm(16), conv2=_plain_sage(16, c)
        ),
        {"self_loops": True},
        "sage sage",
    ),
    "sage-sum-directed": Network(
        "karate-directed",
        lambda f, c: _chain(conv1=_plain_sage(f, 8, aggr="sum"), conv2=_plain_sage(8, c, aggr="sum")),
        {"aggregation": "sum"},
        "gin gin",
    ),
    "gin-linear-karate": Network(
        "karate",
        lambda f, c: _chain(
            norms={"conv1": "bn1"},
            conv1=pyg.GINConv(nn.Linear(f, 8), train_eps=True),
            bn1=nn.BatchNorm1d(8),
            conv2=pyg.GINConv(nn.Linear(8, c), eps=0.25),
        ),
        {},
        "gin gin",
    ),
    "gcn-head-digits": Network(
        "digits",
        lambda f, c: _chain(
            lin_in=pyg.Linear(f, 12), conv1=pyg.GCNConv(12, 12), conv2=pyg.GCNConv(12, 8), out=nn.Linear(8, c)
        ),
        {},
        "linear gcn gcn linear",
    ),
    "gcn-act-first-karate": Network(
        "karate",
        lambda f, c: GCN(f, 8, 2, c, norm="batch_norm", act_first=True, jk="last"),
        {"act_first": True},
        "gcn linear gcn linear",
    ),
    "sage-directed": Network("karate-directed", lambda f, c: GraphSAGE(f, 8, 2, c), {}, "sage sage"),
    "sage-max-directed": Network(
        "karate-directed", lambda f, c: GraphSAGE(f, 8, 2, c, aggr="max"), {"aggregation": "max"}
    ),
    "gin-karate": Network(
        "karate", lambda f, c: GIN(f, 8, 2, c, norm="batch_norm", train_eps=True), {}, "gin linear gin linear"
    ),
    "gin-sequential-karate": Network(
        "karate",
        lambda f, c: _chain(
            conv1=pyg.GINConv(_perceptron(f, 8)),
            conv2=pyg.GINConv(_perceptron(8, 8)),
            lin1=nn.Linear(8, 8),
            lin2=nn.Linear(8, c),
        ),
        {"plain_last": False},
        "gin linear gin linear linear linear",
    ),
    "gat-karate": Network("karate", lambda f, c: GAT(f, 8, 2, c, heads=4), {}, "gat gat linear"),
    "gat-elu-directed": Network(
        "karate-directed",
        lambda f, c: _chain(
            nn.functional.elu,
            conv1=pyg.GATConv(f, 4, heads=8, negative_slope=0.1),
            conv2=pyg.GATConv(32, c, heads=1, concat=False, negative_slope=0.1),
        ),
        {"activation": "elu", "negative_slope": 0.1},
        "gat gat linear",
    ),
    "gat-residual-directed": Network(
        "karate-directed", lambda f, c: GAT(f, 8, 3, c, heads=2, bias=False, residual=True, norm="batch_norm")
    ),
    "gat-open-karate": Network(
        "karate", lambda f, c: GAT(f, 8, 2, c, heads=2, bias=False), {"heads": "mean"}, "gat gat linear"
    ),
    "gat-one-karate": Network("karate", lambda f, c: GAT(f, 8, 2, c), {}, "gat gat linear"),
    "gat-eight-karate": Network("karate", lambda f, c: GAT(f, 32, 2, c, heads=8), {}, "gat gat linear"),
    "gcn-deep-digits": Network(
        "digits", lambda f, c: GCN(f, 16, 8, c, norm="batch_norm", dropout=0.1), {}, " ".join(["gcn"] * 8)
    ),
    "mixed-karate": Network("karate", _mixed, {}, "gcn sage gin linear"),
    "sage-plain-directed": Network(
        "karate-directed",
        lambda f, c: _chain(conv1=_plain_sage(f, 8), conv2=_plain_sage(8, 8), lin=nn.Linear(8, c)),
        {},
        "sage sage linear",
    ),
    "graph-conv-directed": Network(
        "karate-directed",
        lambda f, c: _chain(conv1=pyg.GraphConv(f, 8), conv2=pyg.GraphConv(8, c)),
        {},
        "gin gin",
    ),
    "gcn-weighted": Network(
        "karate-weighted", lambda f, c: _chain(conv1=pyg.GCNConv(f, 8), conv2=pyg.GCNConv(8, c)), {}, "gcn gcn"
    ),
    "graph-conv-weighted": Network(
        "karate-weighted", lambda f, c: _chain(conv1=pyg.GraphConv(f, 8), conv2=pyg.GraphConv(8, c)), {}, "gin gin"
    ),
    "gcn-mean-molecules": Network(
        "synthetic:molecules,graphs=100",
        lambda f, c: _chain(
            pool=pyg.global_mean_pool,
            plain=True,
            conv1=pyg.GCNConv(f, 12),
            conv2=pyg.GCNConv(12, 12),
            lin=nn.Linear(12, c),
        ),
        {"pool": "mean", "plain_pool": True},
        "gcn gcn mean",
    ),
    "gin-sum-molecules": Network(
        "synthetic:molecules,graphs=200",
        lambda f, c: _chain(
            pool=pyg.global_add_pool,
            conv1=pyg.GINConv(_perceptron(f, 12)),
            conv2=pyg.GINConv(_perceptron(12, 12)),
            lin1=nn.Linear(12, 12),
            lin2=nn.Linear(12, c),
        ),
        {"pool": "sum", "plain_last": False},
        "gin linear gin linear sum linear",
    ),
}


def _inputs(network: Network, graph: Any) -> tuple[Any, ...]:
    """Return what the network takes: features and edges, and if there are any their weights, and the batch."""
    values = graph.features.toarray() if hasattr(graph.features, "toarray") else graph.features
    edges = torch.stack([torch.from_numpy(graph.edges), torch.from_numpy(graph.destinations)])
    if network.options.get("self_loops"):
        edges = torch.cat([edges, torch.arange(graph.nodes).repeat(2, 1)], dim=1)
    if graph.graph_of is not None:
        # Vertices that stand for graphs come last; PyTorch Geometric has none.
        members = graph.nodes - graph.graph_vertices.size
        batch = torch.from_numpy(graph.graph_of[:members]) - members
        return torch.from_numpy(values[:members]), edges, None, batch
    inputs = torch.from_numpy(values), edges
    return inputs if graph.edge_weight is None else (*inputs, torch.from_numpy(graph.edge_weight))


def trained(network: Network, graph: Any, epochs: int) -> Any:
    """Return the network, trained on a graph, in evaluation mode.

    Parameters
    ----------
    network
        What to make.
    graph
        ``golden.graph.Graph``.
    epochs
        Passes over the graph.
    """
    torch.manual_seed(1)
    made = network.make(graph.feature_count, graph.classes)
    optimiser = torch.optim.Adam(made.parameters(), lr=_RATE, weight_decay=_DECAY)
    inputs, chosen = _inputs(network, graph), results_of(graph)
    learnt = torch.from_numpy((graph.train | graph.validation)[chosen])
    labels = torch.from_numpy(graph.labels[chosen])
    made.train()
    for _ in range(epochs):
        optimiser.zero_grad()
        nn.functional.cross_entropy(made(*inputs)[learnt], labels[learnt]).backward()
        optimiser.step()
    return made.eval()


def logits(network: Network, made: Any, graph: Any) -> Any:
    """Return PyTorch Geometric's results in evaluation mode, float64 [nodes or graphs, classes]."""
    x, edges, *others = _inputs(network, graph)
    others = [each.double() if each is not None and each.is_floating_point() else each for each in others]
    with torch.no_grad():
        found = made.double()(x.double(), edges, *others).numpy()
    made.float()
    return found
