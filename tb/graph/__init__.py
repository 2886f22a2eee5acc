"""Benches of the graph readers."""
