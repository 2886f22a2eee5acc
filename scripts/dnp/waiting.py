"""Where an array waits: a map of the processors as text, and as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["as_text", "draw"]

#: Shades of a tenth each.
_SHADES = " .:-=+*#%@"
#: Columns up to which every processor gets a number.
_NUMBERED = 16


def as_text(waiting: npt.NDArray[np.float64]) -> str:
    """Return a map of shares, float [rows, columns]: percent up to 16 columns, beyond that a character a processor."""
    if waiting.shape[1] <= _NUMBERED:
        return "\n".join("  " + "".join(f"{100 * share:4.0f}" for share in row) for row in waiting)
    shades = np.clip((waiting * len(_SHADES)).astype(int), 0, len(_SHADES) - 1)
    legend = f"  each character: tenths of the clocks, '{_SHADES[0]}' less than 1, '{_SHADES[-1]}' 9 and more"
    return "\n".join([*("  " + "".join(_SHADES[shade] for shade in row) for row in shades), legend])


def draw(waiting: npt.NDArray[np.float64], title: str, path: Path) -> None:
    """Write the map as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 4.4), layout="constrained")
    picture = axes.imshow(100 * waiting, vmin=0, vmax=100, cmap="magma")
    figure.colorbar(picture, label="% of the clocks waiting for a partner")
    axes.set(xlabel="column", ylabel="row", title=title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
