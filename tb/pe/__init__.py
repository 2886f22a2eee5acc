"""Benches of the gather PE."""
