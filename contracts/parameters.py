"""Fields of configurations: each has the range that the constructor checks and that `atoll configs` lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

__all__ = ["FLAT", "FOLLOWS", "RANGE", "SECTION", "Parameters", "Range", "choice", "part", "size"]

#: A bound, or a function that computes it from the configuration.
Bound = int | Callable[[Any], int]

#: Keys of a field's metadata: `Range`; whether a part's keys stand in the section of what it is part of; its parameters
#: that follow from others; the section of a file in which a field stands if it is not the one of its dataclass.
RANGE, FLAT, FOLLOWS, SECTION = "range", "flat", "follows", "section"


@dataclass(frozen=True)
class Range:
    """Values that a parameter can have.

    Attributes
    ----------
    low, high
        Smallest and largest value; no `high`: unbounded.
    step
        Values are multiples of it.
    power
        Values are powers of two.
    values
        All values, instead of the above.
    zero
        0 is a value, too; None with a parameter whose default is None.
    """

    low: Bound = 0
    high: Bound | None = None
    step: int = 1
    power: bool = False
    values: tuple[int, ...] = ()
    zero: bool = False

    def bounds(self, config: Any) -> tuple[int, int | None]:
        """Return the smallest and the largest value in a configuration."""
        low, high = (bound(config) if callable(bound) else bound for bound in (self.low, self.high))
        assert low is not None
        return low, high

    @property
    def fixed(self) -> bool:
        """Whether it is the same in all configurations."""
        return not (callable(self.low) or callable(self.high))

    def holds(self, value: int, config: Any) -> bool:
        """Return whether a parameter of a configuration can have a value."""
        if self.zero and value == 0:
            return True
        if self.values:
            return value in self.values
        low, high = self.bounds(config)
        within = low <= value and (high is None or value <= high)
        return within and value % self.step == 0 and not (self.power and value & (value - 1))

    def describe(self, config: Any) -> str:
        """Return the values in words that follow "must be": ``a power of two in 1..16``."""
        zero = "0 or " if self.zero else ""
        if self.values:
            *others, last = map(str, self.values)
            return f"{zero}{', '.join(others)} or {last}"
        low, high = self.bounds(config)
        kind = "a power of two " if self.power else f"a multiple of {self.step} " if self.step > 1 else ""
        if high is not None:
            return f"{zero}{kind}in {low}..{high}"
        return f"{zero}{kind}from {low}" if kind else f"{zero}at least {low}"


def size(
    default: int | None,
    low: Bound = 0,
    high: Bound | None = None,
    *,
    step: int = 1,
    power: bool = False,
    values: tuple[int, ...] = (),
    zero: bool = False,
    section: str = "",
) -> Any:
    """Return the field of a parameter with its default and the values of `Range`; `section` as in `part`."""
    more = {SECTION: section} if section else {}
    return field(default=default, metadata={RANGE: Range(low, high, step, power, values, zero), **more})


def choice(default: Enum, *, section: str = "") -> Any:
    """Return the field of a parameter whose values are those of an enumeration; `section` as in `size`."""
    return field(default=default, metadata={SECTION: section} if section else {})


def part(kind: Callable[[], Any] | None = None, *, flat: bool = False, follows: tuple[str, ...] = ()) -> Any:
    """Return the field of a configuration inside another, by default with the defaults of its class.

    Parameters
    ----------
    kind
        Dataclass of the part; None: by default there is no such part.
    flat
        Its keys stand in the same section of a file as those of the configuration that it is part of; otherwise in a
        section with the field's name.
    follows
        Parameters of the part that follow from the rest of a machine, so that a file does not set them.
    """
    metadata = {FLAT: flat, FOLLOWS: follows}
    return field(default_factory=kind, metadata=metadata) if kind else field(default=None, metadata=metadata)


@dataclass(frozen=True)
class Parameters:
    """Base of a configuration; its constructor checks every parameter that has a range.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __post_init__(self) -> None:
        # Ranges that depend on other parameters come last, when those are known to be good.
        ranged = [(entry.name, entry.metadata[RANGE]) for entry in fields(self) if RANGE in entry.metadata]
        for name, values in sorted(ranged, key=lambda entry: not entry[1].fixed):
            value = getattr(self, name)
            if value is not None and not values.holds(value, self):
                raise ValueError(f"{name} must be {values.describe(self)}, not {value!r}")
