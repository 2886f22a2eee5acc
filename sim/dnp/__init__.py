"""Simulated processors and arrays of the DNP-II."""
