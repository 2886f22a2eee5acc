"""Where the mapper puts things in a processor's memories."""

from dataclasses import dataclass, field

from contracts.dnp.config import ProcessorConfig
from golden.dnp.placement import Placement

__all__ = ["DoesNotFitError", "Layout"]

#: Areas of finished sums while passes overlap: of odd hidden layers, of even ones, of outputs in even and odd steps.
_AREAS = 4


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
    half, kept
        Of overlapping passes: words between the two halves of the hidden values, which follow each other in XM, and
        words of each of the four areas at ``sums``, for finished sums where one register is not enough.
    wm_used, xm_used
        Words.
    """

    weights: dict[int, int] = field(default_factory=dict)
    biases: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    errors: dict[int, int] = field(default_factory=dict)
    sums: int = 0
    targets: int = 0
    half: int = 0
    kept: int = 0
    wm_used: int = 0
    xm_used: int = 0

    @classmethod
    def of(
        cls,
        placement: Placement,
        row: int,
        column: int,
        config: ProcessorConfig,
        *,
        learning: bool,
        overlapped: bool = False,
    ) -> "Layout":
        """Lay out a processor, for passes one after the other, or for such that overlap.

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
        if overlapped:
            made._lay_out_halves(widths, max(own.values()))
        else:
            made._lay_out_values(widths, own, learning=learning, rounds=placement.rounds)
        for memory, used, depth in (("WM", made.wm_used, config.wm_depth), ("XM", made.xm_used, config.xm_depth)):
            if used > depth:
                raise DoesNotFitError(
                    f"layers {placement.sizes} on {placement.rows} x {placement.columns} processors need {used} words "
                    f"of {memory} in processor ({row}, {column}), which has {depth}"
                )
        return made

    def _lay_out_values(self, widths: list[int], own: dict[int, int], *, learning: bool, rounds: bool) -> None:
        for layer, width in enumerate(widths):
            self.values[layer] = self.xm_used
            self.xm_used += width
        if learning:
            for layer in own:
                self.errors[layer] = self.xm_used
                self.xm_used += widths[layer]
            self.targets = self.xm_used
            self.xm_used += own[max(own)]
        self.sums = self.xm_used
        self.xm_used += max(own.values()) if rounds else max(widths[1:])

    def _lay_out_halves(self, widths: list[int], most: int) -> None:
        """Place inputs twice, then values of hidden layers one behind the other, twice; outputs are not stored."""
        self.values[0] = 0
        self.xm_used = 2 * widths[0]
        for layer, width in enumerate(widths[1:-1], 1):
            self.values[layer] = self.xm_used + self.half
            self.half += width
        self.sums = self.xm_used + 2 * self.half
        self.kept = most if most > 1 else 0
        self.xm_used = self.sums + _AREAS * self.kept
