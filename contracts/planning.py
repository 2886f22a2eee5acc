"""Planned target addresses: what a plan sees, and between which slots it chooses (A4)."""

__all__ = ["CELLS", "FIRST_REACH", "GROUPS", "LANES", "REACH_STEP", "SLACK"]

#: Requests that the first one of a list knows, itself among them. More would make it wait for them.
FIRST_REACH = 64
#: Requests that each one knows more than the one before.
REACH_STEP = 8
#: Places of the ring for requests that come before somebody may know of them.
SLACK = 32
#: Words of the table for each place of the ring.
CELLS = 4
#: Slots that are compared in a cycle.
LANES = 4
#: Groups of so many slots that a search looks at.
GROUPS = 4
