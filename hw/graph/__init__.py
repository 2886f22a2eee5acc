"""Readers of the graph in memory."""
