"""The contents of `result.json`, typed.

Each class is an object of the file; each field is a key, annotated with its meaning. None (null) is a figure that
the run does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from hw.attributes.core import AttributeCoreConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.dnp.neural_unit import NeuralConfig
from scripts.flows.typed_json import INLINE

__all__ = [
    "Accuracy", "Aggregation", "AttributeCache", "Batch", "BatchCycles", "Communities", "Config", "Dataset", "Ends",
    "ExternalBytes", "Head", "HeadAccuracy", "HeadCycles", "Links", "Macs", "Model", "Moved", "Ranking", "Result",
    "RingTraffic", "SampledAccuracy", "Session", "Simulation", "Thresholds", "Vertices",
]  # fmt: skip

#: A share of nodes, or of the small graphs of a batch, 0 to 1; None: none has a known class.
Share = float | None


@dataclass(frozen=True)
class Dataset:
    """The graph."""

    name: Annotated[str, "Name of the data set."]
    nodes: Annotated[int, "Nodes, the graph vertices of a batch of small graphs among them."]
    graphs: Annotated[int, "Small graphs of a batch; 0: one graph."]
    edges: Annotated[int, "Directed edges, without self loops."]
    features: Annotated[int, "Features of a node."]
    classes: Annotated[int, "Classes of nodes, or of small graphs."]


@dataclass(frozen=True)
class Model:
    """The network."""

    name: Annotated[str, "gcn, sage or gin; of a network from a file all kinds of layer, such as gcn + linear."]
    layers: Annotated[list[list[int]], "Input and output features of each layer."]
    activation: Annotated[str, "Activation between layers."]
    file: Annotated[str | None, "File of weights; None: trained by the run."]


@dataclass(frozen=True)
class Config:
    """The machine."""

    name: Annotated[str, "Configuration as the user named it."]
    chiplets: Annotated[int, "Chiplets of the ring; 1: a chiplet alone."]
    chiplet: GatherChipletConfig | CommunityChipletConfig = field(metadata={INLINE: True})
    lanes: Annotated[int, "Multipliers of all chiplets."]
    neural: Annotated[NeuralConfig | None, "Sizes of the neural unit, if the run needs it."]
    attributes: Annotated[AttributeCoreConfig | None, "Sizes of the attribute core, if the run needs it."]


@dataclass(frozen=True)
class Macs:
    """Work of the multipliers."""

    useful: Annotated[int, "Multiply-accumulates with a non-zero feature, and additions over A + I, of all layers."]
    lanes: Annotated[int, "Multiply-accumulate units."]
    limit_cycles: Annotated[
        int,
        "Least cycles of such a machine: the larger of useful / lanes and compulsory bytes over the ports' width.",
    ]
    utilisation: Annotated[float | None, "useful / (lanes * cycles)."]


@dataclass(frozen=True)
class Moved:
    """Bytes through memory ports."""

    read: Annotated[int | None, "Bytes read."]
    written: Annotated[int | None, "Bytes written."]

    @property
    def total(self) -> int:
        """Bytes read and written."""
        return (self.read or 0) + (self.written or 0)


@dataclass(frozen=True)
class ExternalBytes(Moved):
    """Bytes through all memory ports, beside the least there can be."""

    compulsory: Annotated[
        int, "Bytes if every feature, edge, offset and weight is read once and every result written once."
    ]
    limit_cycles: Annotated[int, "Cycles that the memory ports need for these."]


@dataclass(frozen=True)
class RingTraffic:
    """Traffic of the links, in 16-bit words."""

    placement: Annotated[str, "tiles, communities, or whole small graphs."]
    imbalance: Annotated[float, "Operations of the chiplet with most of them, over the mean."]
    placing_seconds: Annotated[float, "In which the host shared the graph out."]
    words_by_link: Annotated[list[int], "Words that crossed the link behind each chiplet."]
    minimum: Annotated[list[int], "Least words of each link."]
    unicast: Annotated[int, "Words over all links if rows were sent to each consumer separately."]
    broadcast: Annotated[int, "Words over all links if every row went round the whole ring."]

    @property
    def words(self) -> int:
        """Words over all links."""
        return sum(self.words_by_link)

    @property
    def least(self) -> int:
        """Least words over all links."""
        return sum(self.minimum)


@dataclass(frozen=True)
class Thresholds:
    """Request to the locator."""

    threshold: Annotated[int, "Degree above which a vertex is a hub in the first round."]
    halving: Annotated[bool, "Whether the threshold is halved every round."]
    step: Annotated[int, "Otherwise, fall of the threshold a round."]
    c_max: Annotated[int, "Largest community, in vertices."]


@dataclass(frozen=True)
class Communities:
    """Result of the last location, of all chiplets and their tiles together."""

    hubs: Annotated[int, "Hubs."]
    communities: Annotated[int, "Communities."]
    edges_read: Annotated[int, "Edges that the locator read."]
    rounds: Annotated[int, "Most rounds of one location."]
    tiles: Annotated[list[int], "Parts in which each chiplet computes a layer; 1 if its share fits on the chip."]
    placement: Annotated[str, "As of `ring`, also of one chiplet, whose tiles are cut in that order."]
    placing_seconds: Annotated[float, "Seconds of the host for it."]
    schedule: Annotated[Thresholds, "Thresholds of the rounds."]


@dataclass(frozen=True)
class Aggregation:
    """Additions of rows, of all layers."""

    scheme: Annotated[str, "How sums are shared: pairs, windows of so many columns, or none."]
    baseline: Annotated[int, "Additions without shared sums."]
    gross: Annotated[int, "Additions to rows with shared sums."]
    net: Annotated[int, "Additions to rows and those that form shared sums."]


@dataclass(frozen=True)
class AttributeCache:
    """Requests to the attribute RAMs of all chiplets, of all mini-batches."""

    requests: Annotated[int, "Requests."]
    misses: Annotated[int, "Requests that read external memory."]
    in_place: Annotated[int, "Requests whose attribute is in its slot."]
    cached: Annotated[int, "Requests whose attribute is in the victim cache."]
    moved: Annotated[int, "Requests whose attribute is in another slot."]
    missed: Annotated[int, "As `misses`."]
    slots: Annotated[int, "Slots of a chiplet, those of all its attribute processors."]
    ways: Annotated[int, "Ways of its victim caches."]
    policy: Annotated[str, "Replacement policy."]
    sub_batches: Annotated[int, "Fillings of the slots."]


@dataclass(frozen=True)
class BatchCycles:
    """Cycles of mini-batches on the chiplet that ends last."""

    total: Annotated[int, "All."]
    sample: Annotated[int, "Cycles of runs that only sample: that of the first batch."]
    layers: Annotated[
        int, "Cycles of the layers, of the attributes for them, and of sampling the next batch meanwhile."
    ]


@dataclass(frozen=True)
class SampledAccuracy:
    """Accuracy on the roots."""

    float: Annotated[Share, "Accuracy of the float model without sampling."]
    machine: Annotated[Share, "Accuracy of the hardware."]


@dataclass(frozen=True)
class Ranking:
    """How well scores tell pairs of joined nodes from pairs of others; 0 to 1, None without pairs."""

    auc: Annotated[float | None, "Probability that a positive pair scores more than a negative one; equal ones half."]
    mrr: Annotated[float | None, "Mean of 1 / rank of a positive pair among its root's negatives; equal scores share."]
    hits1: Annotated[float | None, "Share of positive pairs of rank 1."]
    hits3: Annotated[float | None, "Share of positive pairs of rank 3 or better."]


@dataclass(frozen=True)
class Ends:
    """Mini-batches whose roots are the nodes of pairs that were no roots before."""

    nodes: Annotated[int, "These nodes."]
    batches: Annotated[list[int], "Batches of each chiplet."]
    positions: Annotated[int, "Roots and samples of all batches."]
    cycles: Annotated[BatchCycles | None, "Cycles of the chiplet that ends last."]
    external_bytes: Annotated[Moved, "Bytes of all chiplets."]


@dataclass(frozen=True)
class Links:
    """Link prediction: each root with a sampled neighbour, and with its negatives."""

    positive: Annotated[int, "Pairs of a root and the first neighbour that was sampled for it."]
    negative: Annotated[int, "Pairs of these roots and their negatives."]
    ends: Annotated[Ends | None, "Batches that compute the other nodes of pairs; None: all are roots."]
    machine: Annotated[Ranking, "By inner products of the hardware's results, in integers."]
    float: Annotated[Ranking, "By those of the float model without sampling."]
    features: Annotated[Ranking, "By those of the input features in integers, without any network."]


@dataclass(frozen=True)
class Batch:
    """Mini-batches."""

    size: Annotated[int, "Roots of a batch."]
    fan_out: Annotated[list[int], "Neighbours in each hop."]
    negatives: Annotated[int, "Nodes drawn for each root that are not joined to it; 0: none."]
    order: Annotated[str, "Order of each chiplet's roots."]
    batches: Annotated[list[int], "Batches of each chiplet."]
    positions: Annotated[int, "Roots and samples of all batches, negatives among them."]
    bit_exact: Annotated[bool | None, "Whether samples and results are those of the golden model, of `links` too."]
    cycles: Annotated[BatchCycles | None, "Cycles of the chiplet that ends last."]
    external_bytes: Annotated[Moved, "Bytes of all chiplets."]
    accuracy: Annotated[SampledAccuracy, "Accuracy on the roots."]
    links: Annotated[Links | None, "Link prediction, with negatives."]


@dataclass(frozen=True)
class Balance:
    """How evenly units of a kind work."""

    kind: Annotated[str, "What they are."]
    units: Annotated[int, "How many there are on all chiplets."]
    busiest: Annotated[int, "Cycles in which the busiest works."]
    mean: Annotated[float, "Cycles in which one works, on average."]
    imbalance: Annotated[float, "The busiest over the mean."]


@dataclass(frozen=True)
class Edited:
    """A step of edges."""

    added: Annotated[int, "Edges that came; of an undirected graph an edge stands for both directions."]
    removed: Annotated[int, "Edges that went."]


@dataclass(frozen=True)
class Session:
    """Graphs that are run one after another, while weights stay in memory."""

    runs: Annotated[int, "Runs."]
    graphs: Annotated[list[int], "Small graphs of each run; 1 if the data set is one graph."]
    cycles: Annotated[list[int] | None, "Latency of each run: cycles from its start to its completion."]
    graphs_per_million_cycles: Annotated[float | None, "Graphs over the cycles of all runs, without the host's writes."]
    clock_mhz: Annotated[float | None, "Clock that was asked for, in MHz."]
    graphs_per_second: Annotated[float | None, "Graphs a second at this clock."]
    host_bytes: Annotated[list[int], "Bytes that the host writes before each run, before the first also what stays."]
    external_bytes: Annotated[Moved, "Bytes of all chiplets and runs."]
    edits: Annotated[list[Edited] | None, "What changed before each run but the first; None without --edits."]
    bit_exact: Annotated[bool | None, "Whether all results are those of the golden model."]


@dataclass(frozen=True)
class Vertices:
    """Vertices of a head."""

    learnt: Annotated[int, "Vertices of each epoch."]
    scored: Annotated[int, "Vertices that are scored."]


@dataclass(frozen=True)
class HeadCycles:
    """Cycles of a head, each with the load of its program."""

    learning: Annotated[int, "Cycles of all epochs."]
    reading: Annotated[int, "Cycles of the read-back of weights."]
    scoring: Annotated[int, "Cycles of scoring."]
    commands: Annotated[int, "Cycles before, between and after these."]
    total: Annotated[int, "All, from the start of the image."]


@dataclass(frozen=True)
class HeadAccuracy:
    """Accuracy of a head on the test nodes."""

    machine: Annotated[Share, "Accuracy of the head in hardware."]
    network: Annotated[Share, "Accuracy of the network's own last layer."]
    float: Annotated[Share, "Accuracy of the same head in floating point."]


@dataclass(frozen=True)
class Head:
    """A head that learns."""

    epochs: Annotated[int, "Passes over the training vertices."]
    features: Annotated[int, "Features of a vertex."]
    hidden: Annotated[list[int], "Neurons of every hidden layer."]
    classes: Annotated[int, "Classes."]
    shift: Annotated[int, "Bits by which features are shifted to the left into Q0.15."]
    rate: Annotated[float, "Learning rate η of eq. 4; momentum is 1."]
    vertices: Annotated[Vertices, "Vertices of an epoch, and of the scoring."]
    chiplet: Annotated[int, "Chiplet whose neural chip learns."]
    cycles: Annotated[HeadCycles | None, "Cycles by part."]
    bit_exact: Annotated[
        bool | None, "Whether outputs of the last epoch, weights and scores are those of the golden model."
    ]
    accuracy: Annotated[HeadAccuracy, "Accuracy on the test nodes."]


@dataclass(frozen=True)
class Accuracy(SampledAccuracy):
    """Accuracy on the test nodes, or on the test graphs of a batch."""

    agreement: Annotated[float, "Share of all nodes, or small graphs, for which both predict the same class."]
    losses: Annotated[
        list[float] | None,
        "What each layer loses by itself in integers, of the accuracy or without classes of the agreement; None: the "
        "whole network loses at most a point.",
    ]


@dataclass(frozen=True)
class Simulation:
    """The simulator."""

    wall_seconds: Annotated[float | None, "Seconds of the simulation."]
    cycles_per_second: Annotated[float | None, "Simulated cycles a second."]


@dataclass(frozen=True)
class Result:
    """Figures of a run."""

    schema: Annotated[int, "Version of the keys."]
    dataset: Annotated[Dataset, "The graph."]
    model: Annotated[Model, "The network."]
    config: Annotated[Config, "The machine."]
    bit_exact: Annotated[bool | None, "Whether every value is that of the golden model; None: nothing was simulated."]
    differences: Annotated[
        list[str] | None,
        "A line for each layer that differs, for an error that the hardware reported, or for a wrong record.",
    ]
    cycles: Annotated[int | None, "Cycles from the start of the run to its completion."]
    cycles_by_phase: Annotated[dict[str, int] | None, "Cycles by phase, on a ring of the chiplet that takes longest."]
    balance: Annotated[list[Balance] | None, "Of units of which there are several, by cycles at work in RTL."]
    macs: Annotated[Macs, "Work of the multipliers."]
    external_bytes: Annotated[ExternalBytes, "Bytes through the memory ports."]
    ring: Annotated[RingTraffic | None, "Traffic of the links, with several chiplets."]
    communities: Annotated[Communities | None, "Hubs and communities, with community PEs."]
    aggregation: Annotated[Aggregation | None, "Additions of rows, with community PEs."]
    attribute_cache: Annotated[
        AttributeCache | None, "Requests to the attribute RAMs, with mini-batches that were simulated."
    ]
    batch: Annotated[Batch | None, "Mini-batches; None also if the network's own run differs."]
    session: Annotated[Session | None, "Graphs one after another; None also if the network's own run differs."]
    head: Annotated[Head | None, "A head that learns; None also if the network's own run differs."]
    accuracy: Annotated[Accuracy, "Accuracy on the test nodes."]
    simulation: Annotated[Simulation, "The simulator."]
    tools: Annotated[dict[str, str], "Versions of tools."]
    seed: Annotated[int, "Seed of the training."]
    commit: Annotated[str | None, "Commit of the project."]
