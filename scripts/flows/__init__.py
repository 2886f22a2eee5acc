"""Flows over blocks, one module a verb; each has a function that returns data and one that prints it."""
