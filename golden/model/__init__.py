"""Layers of graph neural networks: exact integer model, float model, quantisation, weights."""
