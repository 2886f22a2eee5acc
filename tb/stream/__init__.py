"""Benches of the stream blocks."""
