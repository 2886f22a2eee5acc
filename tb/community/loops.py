"""What Verilator has to be told of a chiplet whose PEs are compiled apart."""

from pathlib import Path

__all__ = ["loose_loops"]


def loose_loops(directory: Path, design: str) -> Path:
    """Write a control file that lets connections between blocks look like loops.

    PEs and hub units are compiled apart, once each. Seen from outside, every output of such a block depends on every
    input, so what connects them looks like loops; inside them the rule stands.

    Parameters
    ----------
    directory
        Where the file goes.
    design
        Name of the module that instantiates the blocks.
    """
    path = directory / "loops.vlt"
    # Where the design is such a block itself, its stand-in uses the reset in two ways.
    path.write_text(
        f'`verilator_config\nlint_off -rule UNOPTFLAT -file "*/{design}.v"\n'
        f'lint_off -rule SYNCASYNCNET -file "*/{design}.sv"\n'
    )
    return path
