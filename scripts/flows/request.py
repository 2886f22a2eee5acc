"""The request of `atoll run`: a data set, a network, a machine and the parts of a run that are wanted."""

from dataclasses import dataclass
from pathlib import Path

from contracts import Model
from golden.locator.schedule import ANY, Choice
from golden.model.activation import RELU
from golden.model.calibration import Calibration
from golden.model.quantise import FULL
from golden.model.training import Training
from golden.model.weights import model_of
from scripts.flows.batch import Sampling

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """What `atoll run` was asked for.

    Attributes
    ----------
    chiplets
        Chiplets on the ring, 1 to 16. None: what the configuration says.
    placement
        ``tiles``: each chiplet owns as many VIDs as the others; ``communities``: whole communities, those of a chiplet
        that is alone and has no room for all at once in the order of VIDs. None: see `sharing`.
    dataset
        See `golden.datasets.load`.
    model
        ``gcn``, ``sage`` or ``gin``; None: what the weight file says, or ``gcn``, with mini-batches ``sage``.
    config
        Name or path of a configuration.
    layers, hidden, seed
        Of training.
    activation
        Between layers, of training: a name of `golden.model.activation.FUNCTIONS`.
    model_file
        Weights to use instead of training: an archive, or a state dict of PyTorch Geometric.
    rtl
        Simulate; otherwise the golden model alone.
    out
        Folder for `result.json` and `report.html`.
    head
        Epochs that a classifier head learns on the neural chip from the results before the last layer; None: there is
        no head.
    head_hidden
        Widths of the head's hidden layers.
    sampling
        Mini-batches that are sampled and computed after the inference on the whole graph; None: there are none.
    choice
        Of thresholds and sizes of communities, with community PEs.
    session
        Runs of a session after the inference on the whole data set; 0: none.
    clock
        Clock in MHz for graphs a second of a session, or None.
    edits
        File of steps of edges, each of which changes the graph before another run of a session; None: none.
    edge_weights
        Use the weights of a graph's edges; otherwise every edge counts once.
    edge_attributes
        Use the attributes of a graph's edges in the first layer; otherwise they are left out.
    calibration
        Which share of the values must fit, and how many bits features and weights have.
    """

    dataset: str = "digits"
    model: str | None = None
    config: str = "default"
    chiplets: int | None = None
    placement: str | None = None
    layers: int = 2
    hidden: int = 16
    seed: int = 0
    activation: str = RELU
    model_file: Path | None = None
    rtl: bool = True
    out: Path = Path("atoll-out")
    head: int | None = None
    sampling: Sampling | None = None
    choice: Choice = ANY
    calibration: Calibration = FULL
    session: int = 0
    clock: float | None = None
    edge_weights: bool = True
    edits: Path | None = None
    head_hidden: tuple[int, ...] = ()
    edge_attributes: bool = True

    @property
    def streams(self) -> bool:
        """Whether there is a session."""
        return self.session > 0 or self.edits is not None

    @property
    def sharing(self) -> str | None:
        """How the graph is shared out or cut, as `scripts.flows.simulations.place` takes it.

        Mini-batches keep the order in which the graph was given, unless they are asked not to.
        """
        return self.placement or ("tiles" if self.sampling else None)

    @property
    def network(self) -> Model:
        """Network to train: the one that was asked for, or GCN, with mini-batches GraphSAGE.

        Raises
        ------
        InputError
            If there is no such network.
        """
        return model_of(self.model or ("sage" if self.sampling else "gcn"))

    @property
    def training(self) -> Training:
        """How a network is trained for it.

        Raises
        ------
        InputError
            If a setting is out of range.
        """
        return Training(layers=self.layers, hidden=self.hidden, seed=self.seed, activation=self.activation)
