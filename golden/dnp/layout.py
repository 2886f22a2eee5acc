"""Where the mapper puts things in a processor's memories."""

from dataclasses import dataclass, field

from contracts.dnp.config import ProcessorConfig
from golden.dnp.placement import Placement

__all__ = ["DoesNotFitError", "Layout"]


class DoesNotFitError(ValueError):
    """A network needs more memory than a processor has; the message says which, how much, and how much there is."""


@dataclass
class Layout:
    """Addresses in one processor.

    Attributes
    ----------
    weights, biases
        Per layer, in WM, behind the table that starts at 0. With rounds a bias follows the weights of its row.
    values, errors
        Activations of every layer and errors of those with weights, in XM.
    sums
        Working space for sums, in XM.
    targets
        Desired outputs of the owned output neurons, in XM.
    wm_used, xm_used
        Words.
    """

    weights: dict[int, int] = field(default_factory=dict)
    biases: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    errors: dict[int, int] = field(default_factory=dict)
    sums: int = 0
    targets: int = 0
    wm_used: int = 0
    xm_used: int = 0

    @classmethod
    def of(cls, placement: Placement, row: int, column: int, config: ProcessorConfig, *, learning: bool) -> "Layout":
        """Lay out a processor.

        Raises
        ------
        DoesNotFitError
            If WM or XM is too small.
        """
        made = cls(wm_used=config.table_size)
        last = placement.layers[-1]
        widths = [len(placement.held(layer, row, column)) for layer in range(last + 1)]
        own = {layer: len(placement.owned(layer, row, column)) for layer in placement.layers}
        # One layer's weights follow the other's, and so do biases and values: pointers run on from layer to layer (D3).
        for layer in placement.layers:
            made.weights[layer] = made.wm_used
            made.wm_used += widths[layer] * widths[layer - 1]
            if placement.rounds:
                made.wm_used += own[layer]
        if not placement.rounds:
            for layer in placement.layers:
                made.biases[layer] = made.wm_used
                made.wm_used += own[layer]
        for layer, width in enumerate(widths):
            made.values[layer] = made.xm_used
            made.xm_used += width
        if learning:
            for layer in placement.layers:
                made.errors[layer] = made.xm_used
                made.xm_used += widths[layer]
            made.targets = made.xm_used
            made.xm_used += own[last]
        made.sums = made.xm_used
        made.xm_used += max(own.values()) if placement.rounds else max(widths[1:])
        for memory, used, depth in (("WM", made.wm_used, config.wm_depth), ("XM", made.xm_used, config.xm_depth)):
            if used > depth:
                raise DoesNotFitError(
                    f"layers {placement.sizes} on {placement.rows} x {placement.columns} processors need {used} words "
                    f"of {memory} in processor ({row}, {column}), which has {depth}"
                )
        return made
