"""Configurations of small machines, as text of files."""

__all__ = ["small_community"]


def small_community(edges: int) -> str:
    """Return a small chiplet with community PEs; with 512 edges karate fits at once, with 64 not even half of it."""
    return f"""
pe = "community"
[chiplet]
combiners = 2
pes = 2
units = 2
hubs = 128
kept = 64
depth = 32
[community]
ways = 2
lanes = 4
width = 128
columns = 256
partners = 2
max_out = 16
weight_rows = 256
data_width = 64
[locator]
engines = 2
searches = 1
lanes = 1
nodes = 256
edges = {edges}
banks = 4
outputs = 2
data_width = 64
"""
