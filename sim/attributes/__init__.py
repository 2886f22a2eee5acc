"""Simulated mini-batches, and traces of requests through the attribute cache."""
