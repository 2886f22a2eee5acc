"""Benches of the chiplet."""
