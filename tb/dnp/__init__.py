"""Benches and tests of the DNP-II."""
