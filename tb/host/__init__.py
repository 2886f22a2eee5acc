"""Benches of the host interface."""
