"""Benches of the memory side."""
