"""Limits of the search for communities and of the plans made of them (I1, I4, I5, I7)."""

__all__ = [
    "ARRIVALS",
    "BRANCHES",
    "HOPS_MAX",
    "HUB_WORD",
    "K_VALUES",
    "PARTNERS_MAX",
    "PIECE_BITS",
    "ROUNDS_MAX",
    "SCHEMES",
    "SHARE",
    "TOP_DEGREE",
    "UNORDERED",
]

#: Farthest neighbour whose load a PE sees, in hops.
HOPS_MAX = 3

#: Bits of the number of a piece of a record that is split over PEs: an eighth of the widest record.
PIECE_BITS = 3

#: Most rounds of a run: the state of a node has room for this many round numbers.
ROUNDS_MAX = 1023

#: Degrees up to this one are told apart where vertices are listed by degree; larger ones count as this one.
TOP_DEGREE = 255
#: A first threshold that follows from the degrees is the least that at most one vertex in so many, a power of two,
#: exceeds, or lower.
SHARE = 8
#: It is lower where a search would find more than half so many further vertices at a vertex, in the mean, unless half
#: of the vertices were hubs.
BRANCHES = 5

#: Groups of rows of other chiplets by which records are told apart, and the logarithm of a group's rows where the order
#: in which these come is unknown.
ARRIVALS, UNORDERED = 32, 31

#: `h_max` is a multiple of this many hub columns.
HUB_WORD = 64

#: How sums of a record are shared: in pairs of columns, in windows of columns, or not.
SCHEMES = ("pairs", "window", "none")
#: Widths of the literal window.
K_VALUES = (2, 4, 8)
#: Most columns that one is compared with.
PARTNERS_MAX = 64
