"""Attribute access: sampler, address mapper, two-level attribute RAM and its command interface."""
