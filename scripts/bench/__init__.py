"""The benchmarks of the specifications: a table on screen, JSON and a plot on disk."""
