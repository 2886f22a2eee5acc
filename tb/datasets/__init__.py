"""Tests of the graph and of the loaders."""
