"""The words of a report: a sentence for each command, gap and term, and the names that occur in a run."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.flows.schema import Result

__all__ = ["PHASES", "TERMS", "phase_title", "terms_of"]

#: What a chiplet's time goes into: commands by opcode, then the gaps between them (`sim.runner.phases.Gap`).
PHASES = {
    "combine": "The PEs multiply the features of each vertex by the layer's weights.",
    "aggregate": "The PEs add up the combined features of each vertex and its neighbours, add the bias and round.",
    "load_weights": "The weights and biases of a layer are read from the memory into the PEs.",
    "process": "The community PEs combine and aggregate the communities, each as soon as it has been located.",
    "locate": "The locator begins to search for hubs and communities; the search goes on beside later commands.",
    "list": "The ring unit begins to list the vertices of other chiplets whose features this chiplet needs.",
    "scatter": "A chiplet sends combined features round the ring; with the last part it waits for those that it needs.",
    "reduce": "Partial sums of vertices with many neighbours go round the ring to the chiplets that own the vertices.",
    "barrier": "A chiplet waits until every chiplet of the ring has come to the same point.",
    "share": "A chiplet waits for all others, then they read the parts of the graph in each other's memories.",
    "neural": "The neural chip runs a program over rows: it ends a layer, or learns and scores a head.",
    "sample": "The attribute core samples the neighbourhoods of a mini-batch.",
    "fetch": "The attribute core fetches the attributes of a mini-batch; it goes on while PEs combine the first ones.",
    "copy": "Bytes are moved within the memory.",
    "nop": "A command that does nothing.",
    "start": "From the start to the first command: the image's header and the first commands are read.",
    "between": "A command is answered and the next one is handed on.",
    "scatter_background": "The next command waits for the SCATTER before it, which goes on or waits for the list.",
    "end": "From the last command to the completion.",
}

#: Other terms.
TERMS = {
    "chiplet": "One die with PEs and a memory port of its own; several are joined to a ring.",
    "PE": "Processing element: a group of lanes, each of which multiplies and accumulates once a cycle.",
    "bit-exact": "Every result of the simulated hardware equals that of the golden integer model, bit by bit.",
    "golden model": "The integer arithmetic of the hardware in NumPy: what the hardware must compute.",
    "float": "The network in floating point, before its weights and features are quantised.",
    "limit": "Of cycles: the useful operations over all lanes, or the compulsory bytes over the memory ports, if more.",
    "compulsory": "External bytes if each feature, edge and weight is read once and each result is written once.",
    "utilisation": "Useful operations over what all lanes could do in the run's cycles.",
    "additions of rows": "Vector additions of the aggregation, and in `limit` those of a machine that shares no sums.",
    "hub": "A vertex with more neighbours than the threshold of a round of the search.",
    "community": "Vertices that are joined to one another and to hubs, but to nothing else.",
    "round": "One pass of the search with one threshold; the threshold falls from round to round.",
    "placement": "Which chiplet owns which vertices.",
    "unicast, broadcast": "Other ways to bring features to their consumers: a copy for each, or a round for every row.",
    "mini-batch": "Roots that are sampled and computed together, with neighbours drawn at random in each hop.",
    "pair": "A root with a neighbour (a positive pair), or with a node that no edge joins to it (a negative pair).",
    "AUC": "Probability that a positive pair has a larger inner product of results than a negative pair.",
    "reciprocal rank": "1 over the place of a positive pair among the negative pairs of its root, largest score first.",
    "slot": "Place of an attribute in the attribute core's RAM, for as long as a batch needs it.",
    "victim cache": "Keeps attributes that had to leave their slot.",
    "head": "A dense classifier that learns on the neural chip from the results before the network's last layer.",
}


_GAPS = {
    "start": "start",
    "between": "between commands",
    "scatter_background": "SCATTER in the background",
    "end": "end",
    "all": "all",
}


def phase_title(name: str) -> str:
    """Return a phase as a reader sees it: commands in capitals, gaps in words.

    Parameters
    ----------
    name
        Of a command or gap, or a key of ``cycles_by_phase``, which may have a layer in front.
    """
    layer, dot, phase = name.rpartition(".")
    title = _GAPS.get(phase, phase.upper())
    return f"layer {layer.removeprefix('layer')}: {title}" if dot else title


def terms_of(result: Result, phases: Iterable[str], *, located: bool) -> list[tuple[str, str]]:
    """Return the terms that occur in a report, with a sentence each.

    Parameters
    ----------
    result
        Figures of the run.
    phases
        Names of the phases that are drawn.
    located
        Whether hubs and communities are drawn.
    """
    ran = result.cycles is not None
    found = ["golden model", "float"]
    found += ["chiplet", "PE", "bit-exact", "limit", "compulsory", "utilisation"] if ran else []
    found += ["additions of rows"] if result.aggregation else []
    found += ["hub", "community", "round"] if located or result.communities else []
    found += ["placement", "unicast, broadcast"] if result.ring else []
    found += ["mini-batch"] if result.batch else []
    found += ["pair", "AUC", "reciprocal rank"] if result.batch and result.batch.links else []
    found += ["slot", "victim cache"] if result.attribute_cache else []
    found += ["head"] if result.head else []
    occurring = set(phases)
    commands = [(phase_title(name), said) for name, said in PHASES.items() if name in occurring]
    return commands + [(name, said) for name, said in TERMS.items() if name in found]
