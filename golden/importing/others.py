"""Modules that are not read, by the arrays that give them away: so that a refusal has their names."""

import re
from collections.abc import Set

__all__ = ["kind_name", "name_of_other"]

#: Arrays that a module has, each by the beginning of its name, and what the module is.
_OTHERS = (
    (("att", "lin_l.weight"), "GATv2Conv, whose scores are not sums of a column of each end"),
    (("lin_key.", "lin_query."), "TransformerConv or ResGatedGraphConv"),
    (("lins.0.weight", "bias"), "ChebConv or TAGConv"),
    (("lin_out.", "lin_root."), "ClusterGCNConv"),
    (("init_weight",), "ARMAConv"),
    (("weight", "root"), "RGCNConv"),
    (("weight1",), "GCN2Conv"),
    (("pre_nns.", "post_nns."), "PNAConv"),
    (("lin_src.", "lin_dst.", "mlp."), "GENConv"),
    (("lin_g.",), "PDNConv or another layer with features of edges"),
    (("lstm.", "att."), "JumpingKnowledge with an LSTM"),
    (("weight_ih_l0", "weight_hh_l0"), "an LSTM or GRU"),
    (("in_proj_weight",), "MultiheadAttention"),
)


def kind_name(name: str) -> str:
    """Return the part of a module's path that may say what it is: the last, or that of the list which it is in."""
    return re.sub(r"(\.\d+)+$", "", name).rpartition(".")[2].lower()


def name_of_other(name: str, keys: Set[str]) -> str | None:
    """Return what a module is that is not read; None if its arrays are not those of one.

    Parameters
    ----------
    name
        Path of the module in its network.
    keys
        Names of its arrays inside it.
    """
    for beginnings, other in _OTHERS:
        if all(any(_begins(key, beginning) for key in keys) for beginning in beginnings):
            return other
    last = kind_name(name)
    if keys == {"lin1.weight", "lin1.bias", "lin2.weight", "lin3.weight", "lin3.bias"}:
        return "LEConv"
    if keys == {"weight"} and "emb" in last:
        return "an Embedding; its rows are features"
    if keys == {"lin.weight", "lin.bias"} and ("conv" in last or last.startswith("module_")):
        return "SGConv, or a module with one Linear in it"
    if keys and all(key.startswith("nn.") for key in keys) and "conv" in last:
        return "EdgeConv or another layer that computes on edges"
    return None


def _begins(key: str, beginning: str) -> bool:
    return key.startswith(beginning) if beginning.endswith(".") else key == beginning
