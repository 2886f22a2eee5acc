"""Golden model of the host interface."""
