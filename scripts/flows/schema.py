"""The contents of `result.json`, typed.

Each class is an object of the file, with a key for each field. None (null) is a figure that the run does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hw.attributes.core import AttributeCoreConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.chiplet import CommunityChipletConfig
from hw.dnp.neural_unit import NeuralConfig
from scripts.flows.typed_json import INLINE

__all__ = [
    "Accuracy", "Aggregation", "AttributeCache", "Batch", "BatchCycles", "Communities", "Config", "Dataset",
    "ExternalBytes", "Head", "HeadAccuracy", "HeadCycles", "Macs", "Model", "Moved", "Result", "RingTraffic",
    "SampledAccuracy", "Simulation", "Thresholds", "Vertices",
]  # fmt: skip

#: A share of nodes, 0 to 1; None: no node has a known class.
Share = float | None


@dataclass(frozen=True)
class Dataset:
    """The graph.

    Attributes
    ----------
    name
        Name of the data set.
    nodes
        Nodes.
    edges
        Directed edges, without self loops.
    features
        Features of a node.
    classes
        Classes of nodes.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class Model:
    """The network.

    Attributes
    ----------
    name
        gcn, sage or gin.
    layers
        Input and output features of each layer.
    activation
        Activation between layers.
    file
        File of weights; None: trained by the run.
    """

    name: str
    layers: list[list[int]]
    activation: str
    file: str | None


@dataclass(frozen=True)
class Config:
    """The machine.

    Attributes
    ----------
    name
        Configuration as the user named it.
    chiplets
        Chiplets of the ring; 1: a chiplet alone.
    chiplet
        Sizes of each chiplet, whose keys stand beside the others.
    lanes
        Multipliers of all chiplets.
    neural
        Sizes of the neural unit, if the run needs it.
    attributes
        Sizes of the attribute core, if the run needs it.
    """

    name: str
    chiplets: int
    chiplet: GatherChipletConfig | CommunityChipletConfig = field(metadata={INLINE: True})
    lanes: int
    neural: NeuralConfig | None
    attributes: AttributeCoreConfig | None


@dataclass(frozen=True)
class Macs:
    """Work of the multipliers.

    Attributes
    ----------
    useful
        Multiply-accumulates with a non-zero feature, and additions over A + I, of all layers.
    lanes
        Multiply-accumulate units.
    limit_cycles
        Cycles below which no such machine computes the network: the larger of ``useful / lanes`` and compulsory bytes
        over the ports' width.
    utilisation
        ``useful / (lanes * cycles)``.
    """

    useful: int
    lanes: int
    limit_cycles: int
    utilisation: float | None


@dataclass(frozen=True)
class Moved:
    """Bytes through memory ports.

    Attributes
    ----------
    read
        Bytes read.
    written
        Bytes written.
    """

    read: int | None
    written: int | None

    @property
    def total(self) -> int:
        """Bytes read and written."""
        return (self.read or 0) + (self.written or 0)


@dataclass(frozen=True)
class ExternalBytes(Moved):
    """Bytes through all memory ports, beside the least there can be.

    Attributes
    ----------
    compulsory
        Bytes if every feature, edge, offset and weight is read once and every result written once.
    limit_cycles
        Cycles that the memory ports need for these.
    """

    compulsory: int
    limit_cycles: int


@dataclass(frozen=True)
class RingTraffic:
    """Traffic of the links, in 16-bit words.

    Attributes
    ----------
    placement
        tiles or communities.
    words_by_link
        Words that crossed the link behind each chiplet.
    minimum
        Least words of each link.
    unicast
        Words over all links if rows were sent to each consumer separately.
    broadcast
        Words over all links if every row went round the whole ring.
    """

    placement: str
    words_by_link: list[int]
    minimum: list[int]
    unicast: int
    broadcast: int

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
    """Request to the locator.

    Attributes
    ----------
    threshold
        Degree above which a vertex is a hub in the first round.
    halving
        Whether the threshold is halved every round.
    step
        Otherwise, fall of the threshold a round.
    c_max
        Largest community, in vertices.
    """

    threshold: int
    halving: bool
    step: int
    c_max: int


@dataclass(frozen=True)
class Communities:
    """Result of the last location, of all chiplets and their tiles together.

    Attributes
    ----------
    hubs
        Hubs.
    communities
        Communities.
    edges_read
        Edges that the locator read.
    rounds
        Most rounds of one location.
    tiles
        Parts in which each chiplet computes a layer; 1 if its share fits on the chip.
    schedule
        Thresholds of the rounds.
    """

    hubs: int
    communities: int
    edges_read: int
    rounds: int
    tiles: list[int]
    schedule: Thresholds


@dataclass(frozen=True)
class Aggregation:
    """Additions of rows, of all layers.

    Attributes
    ----------
    baseline
        Additions without shared sums.
    gross
        Additions to rows with shared sums.
    net
        Additions to rows and those that form shared sums.
    """

    baseline: int
    gross: int
    net: int


@dataclass(frozen=True)
class AttributeCache:
    """Requests to the attribute RAMs of all chiplets, of all mini-batches.

    Attributes
    ----------
    requests
        Requests.
    misses
        Requests that read external memory.
    in_place
        Requests whose attribute is in its slot.
    cached
        Requests whose attribute is in the victim cache.
    moved
        Requests whose attribute is in another slot.
    missed
        As `misses`.
    slots
        Slots of each attribute RAM.
    ways
        Ways of its victim cache.
    policy
        Replacement policy.
    sub_batches
        Fillings of the slots.
    """

    requests: int
    misses: int
    in_place: int
    cached: int
    moved: int
    missed: int
    slots: int
    ways: int
    policy: str
    sub_batches: int


@dataclass(frozen=True)
class BatchCycles:
    """Cycles of mini-batches on the chiplet that ends last.

    Attributes
    ----------
    total
        All.
    sample
        Cycles of sampling and attributes.
    layers
        Cycles of the layers.
    """

    total: int
    sample: int
    layers: int


@dataclass(frozen=True)
class SampledAccuracy:
    """Accuracy on the roots.

    Attributes
    ----------
    float
        Accuracy of the float model without sampling.
    machine
        Accuracy of the hardware.
    """

    float: Share
    machine: Share


@dataclass(frozen=True)
class Batch:
    """Mini-batches.

    Attributes
    ----------
    size
        Roots of a batch.
    fan_out
        Neighbours in each hop.
    order
        Order of each chiplet's roots.
    batches
        Batches of each chiplet.
    positions
        Roots and samples of all batches.
    bit_exact
        Whether samples and results are those of the golden model.
    cycles
        Cycles of the chiplet that ends last.
    external_bytes
        Bytes of all chiplets.
    accuracy
        Accuracy on the roots.
    """

    size: int
    fan_out: list[int]
    order: str
    batches: list[int]
    positions: int
    bit_exact: bool | None
    cycles: BatchCycles | None
    external_bytes: Moved
    accuracy: SampledAccuracy


@dataclass(frozen=True)
class Vertices:
    """Vertices of a head.

    Attributes
    ----------
    learnt
        Vertices of each epoch.
    scored
        Vertices that are scored.
    """

    learnt: int
    scored: int


@dataclass(frozen=True)
class HeadCycles:
    """Cycles of a head, each with the load of its program.

    Attributes
    ----------
    learning
        Cycles of all epochs.
    reading
        Cycles of the read-back of weights.
    scoring
        Cycles of scoring.
    commands
        Cycles before, between and after these.
    total
        All, from the start of the image.
    """

    learning: int
    reading: int
    scoring: int
    commands: int
    total: int


@dataclass(frozen=True)
class HeadAccuracy:
    """Accuracy of a head on the test nodes.

    Attributes
    ----------
    machine
        Accuracy of the head in hardware.
    network
        Accuracy of the network's own last layer.
    float
        Accuracy of the same head in floating point.
    """

    machine: Share
    network: Share
    float: Share


@dataclass(frozen=True)
class Head:
    """A head that learns.

    Attributes
    ----------
    epochs
        Passes over the training vertices.
    features
        Features of a vertex.
    classes
        Classes.
    shift
        Bits by which features are shifted to the left into Q0.15.
    rate
        Learning rate η of eq. 4; momentum is 1.
    vertices
        Vertices of an epoch, and of the scoring.
    chiplet
        Chiplet whose neural chip learns.
    cycles
        Cycles by part.
    bit_exact
        Whether outputs of the last epoch, weights and scores are those of the golden model.
    accuracy
        Accuracy on the test nodes.
    """

    epochs: int
    features: int
    classes: int
    shift: int
    rate: float
    vertices: Vertices
    chiplet: int
    cycles: HeadCycles | None
    bit_exact: bool | None
    accuracy: HeadAccuracy


@dataclass(frozen=True)
class Accuracy(SampledAccuracy):
    """Accuracy on the test nodes.

    Attributes
    ----------
    float
        Accuracy of the float model.
    agreement
        Share of all nodes for which both predict the same class.
    """

    agreement: float


@dataclass(frozen=True)
class Simulation:
    """The simulator.

    Attributes
    ----------
    wall_seconds
        Seconds of the simulation.
    cycles_per_second
        Simulated cycles a second.
    """

    wall_seconds: float | None
    cycles_per_second: float | None


@dataclass(frozen=True)
class Result:
    """Figures of a run.

    Attributes
    ----------
    schema
        Version of the keys.
    dataset
        The graph.
    model
        The network.
    config
        The machine.
    bit_exact
        Whether every value is that of the golden model; None: nothing was simulated.
    differences
        A line for each layer that differs, for an error that the hardware reported, or for a wrong record.
    cycles
        Cycles from the start of the run to its completion.
    cycles_by_phase
        Cycles by phase, on a ring of the chiplet that takes longest.
    macs
        Work of the multipliers.
    external_bytes
        Bytes through the memory ports.
    ring
        Traffic of the links, with several chiplets.
    communities
        Hubs and communities, with community PEs.
    aggregation
        Additions of rows, with community PEs.
    attribute_cache
        Requests to the attribute RAMs, with mini-batches that were simulated.
    batch
        Mini-batches; None also if the network's own run differs.
    head
        A head that learns; None also if the network's own run differs.
    accuracy
        Accuracy on the test nodes.
    simulation
        The simulator.
    tools
        Versions of tools.
    seed
        Seed of the training.
    commit
        Commit of the project.
    """

    schema: int
    dataset: Dataset
    model: Model
    config: Config
    bit_exact: bool | None
    differences: list[str] | None
    cycles: int | None
    cycles_by_phase: dict[str, int] | None
    macs: Macs
    external_bytes: ExternalBytes
    ring: RingTraffic | None
    communities: Communities | None
    aggregation: Aggregation | None
    attribute_cache: AttributeCache | None
    batch: Batch | None
    head: Head | None
    accuracy: Accuracy
    simulation: Simulation
    tools: dict[str, str]
    seed: int
    commit: str | None
