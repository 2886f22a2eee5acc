"""Bit-exact NumPy models of the hardware; they never import it."""
