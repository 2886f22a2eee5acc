"""Benches of the attribute access."""
