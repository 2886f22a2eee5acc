"""Readers of the graph as it lies in memory."""
