"""Networks of PyTorch Geometric, as users define them: what the fixtures are made of. Importing this needs PyTorch."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE

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
    model
        What the machine computes it as, or None.
    """

    graph: str
    make: Callable[[int, int], nn.Module]
    options: Mapping[str, Any] = {}
    model: str | None = None


class _Chain(nn.Module):
    """Convolutions and Linears by name, each followed by its norm, an activation and dropout, but for the last."""

    def __init__(self, parts: Mapping[str, nn.Module], norms: Mapping[str, str], act: Callable[[Any], Any]) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.names = [name for name in parts if name not in norms.values()]
        self.norms, self.act = dict(norms), act

    def forward(self, x: Any, edge_index: Any) -> Any:
        for name in self.names:
            part = getattr(self, name)
            x = part(x) if isinstance(part, nn.Linear | pyg.Linear) else part(x, edge_index)
            if name in self.norms:
                x = getattr(self, self.norms[name])(x)
            if name != self.names[-1]:
                x = nn.functional.dropout(self.act(x), 0.2, self.training)
        return x


def _chain(act: Callable[[Any], Any] = torch.relu, norms: Mapping[str, str] | None = None, **parts: nn.Module) -> Any:
    return _Chain(parts, norms or {}, act)


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


def _perceptron(f: int, h: int) -> Any:
    return nn.Sequential(nn.Linear(f, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())


def _plain_sage(f: int, c: int, **how: Any) -> Any:
    return pyg.SAGEConv(f, c, root_weight=False, **how)


#: By name.
NETWORKS: Mapping[str, Network] = {
    "gcn-digits": Network("digits", lambda f, c: _chain(conv1=pyg.GCNConv(f, 16), conv2=pyg.GCNConv(16, c)), {}, "gcn"),
    "gcn-norm-karate": Network("karate", lambda f, c: GCN(f, 12, 3, c, norm="batch_norm", dropout=0.2), {}, "gcn"),
    "gcn-sequential-karate": Network("karate", _sequential, {}, "gcn"),
    "gcn-tanh-directed": Network(
        "karate-directed", lambda f, c: GCN(f, 12, 2, c, act="tanh", bias=False), {"activation": "tanh"}, "gcn"
    ),
    "sage-loops-digits": Network(
        "digits",
        lambda f, c: _chain(
            norms={"conv1": "bn1"}, conv1=_plain_sage(f, 16), bn1=pyg.BatchNorm(16), conv2=_plain_sage(16, c)
        ),
        {"self_loops": True},
        "sage",
    ),
    "sage-sum-directed": Network(
        "karate-directed",
        lambda f, c: _chain(conv1=_plain_sage(f, 8, aggr="sum"), conv2=_plain_sage(8, c, aggr="sum")),
        {"aggregation": "sum"},
        "gin",
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
        "gin",
    ),
    "gcn-head-digits": Network(
        "digits",
        lambda f, c: _chain(
            lin_in=pyg.Linear(f, 12), conv1=pyg.GCNConv(12, 12), conv2=pyg.GCNConv(12, 8), out=nn.Linear(8, c)
        ),
    ),
    "gcn-act-first-karate": Network(
        "karate",
        lambda f, c: GCN(f, 8, 2, c, norm="batch_norm", act_first=True, jk="last"),
        {"act_first": True},
    ),
    "sage-directed": Network("karate-directed", lambda f, c: GraphSAGE(f, 8, 2, c)),
    "sage-max-directed": Network(
        "karate-directed", lambda f, c: GraphSAGE(f, 8, 2, c, aggr="max"), {"aggregation": "max"}
    ),
    "gin-karate": Network("karate", lambda f, c: GIN(f, 8, 2, c, norm="batch_norm", train_eps=True)),
    "gin-sequential-karate": Network(
        "karate",
        lambda f, c: _chain(
            conv1=pyg.GINConv(_perceptron(f, 8)),
            conv2=pyg.GINConv(_perceptron(8, 8)),
            lin1=nn.Linear(8, 8),
            lin2=nn.Linear(8, c),
        ),
        {"plain_last": False},
    ),
    "gat-karate": Network("karate", lambda f, c: GAT(f, 8, 2, c, heads=4)),
    "gat-elu-directed": Network(
        "karate-directed",
        lambda f, c: _chain(
            nn.functional.elu,
            conv1=pyg.GATConv(f, 4, heads=8, negative_slope=0.1),
            conv2=pyg.GATConv(32, c, heads=1, concat=False, negative_slope=0.1),
        ),
        {"activation": "elu", "negative_slope": 0.1},
    ),
    "gat-residual-directed": Network(
        "karate-directed", lambda f, c: GAT(f, 8, 3, c, heads=2, bias=False, residual=True, norm="batch_norm")
    ),
    "gat-open-karate": Network("karate", lambda f, c: GAT(f, 8, 2, c, heads=2, bias=False), {"heads": "mean"}),
}


def _inputs(network: Network, graph: Any) -> tuple[Any, Any]:
    values = graph.features.toarray() if hasattr(graph.features, "toarray") else graph.features
    edges = torch.stack([torch.from_numpy(graph.edges), torch.from_numpy(graph.destinations)])
    if network.options.get("self_loops"):
        edges = torch.cat([edges, torch.arange(graph.nodes).repeat(2, 1)], dim=1)
    return torch.from_numpy(values), edges


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
    x, edges = _inputs(network, graph)
    chosen = torch.from_numpy(graph.train | graph.validation)
    labels = torch.from_numpy(graph.labels)
    made.train()
    for _ in range(epochs):
        optimiser.zero_grad()
        nn.functional.cross_entropy(made(x, edges)[chosen], labels[chosen]).backward()
        optimiser.step()
    return made.eval()


def logits(network: Network, made: Any, graph: Any) -> Any:
    """Return PyTorch Geometric's results in evaluation mode, float64 [nodes, classes], computed in float64."""
    x, edges = _inputs(network, graph)
    with torch.no_grad():
        found = made.double()(x.double(), edges).numpy()
    made.float()
    return found
