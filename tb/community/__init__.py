"""Benches of the community processor."""
