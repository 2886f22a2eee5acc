"""Tools and benchmarks of the DNP-II."""
