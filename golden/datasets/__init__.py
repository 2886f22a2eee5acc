"""Data sets: the values of DATASET on the command line."""

from golden.datasets.catalogue import Entry, catalogue, load

__all__ = ["Entry", "catalogue", "load"]
