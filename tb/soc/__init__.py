"""Benches of the system around the machine."""
