"""Contracts of the DNP-II: instructions, sizes, frames on the G-bus, how arrays are joined."""
