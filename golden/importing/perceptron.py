"""The perceptron inside `GINConv`: a Linear, a Sequential, or PyTorch Geometric's MLP."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy.typing as npt

from contracts.errors import InputError
from golden.importing.layers import Linear, Norm, Options, Stage

__all__ = ["stages_of"]

_Arrays = Mapping[str, npt.NDArray[Any]]
_EXPECTED = "a Linear, a Sequential of Linear and BatchNorm1d, or an MLP"


def stages_of(
    where: str,
    arrays: _Arrays,
    options: Options,
    linear_of: Callable[[str, _Arrays], Linear],
    norm_of: Callable[[str, _Arrays, float], Norm],
) -> tuple[Stage, ...]:
    """Return the stages of a perceptron.

    Parameters
    ----------
    where
        Place, for messages.
    arrays
        Its arrays.
    options
        What they do not show: the activation, and whether one ends the perceptron.
    linear_of, norm_of
        Readers of a Linear and a BatchNorm.

    Raises
    ------
    InputError
        If it is something else, or the widths of its parts do not fit.
    """
    if "weight" in arrays:
        found = [Stage(linear_of(where, arrays))]
    elif any(key.startswith("lins.") for key in arrays):
        found = _mlp(where, arrays, options, linear_of, norm_of)
    else:
        found = _sequential(where, arrays, options, linear_of, norm_of)
    for left, right in pairwise(found):
        if left.linear.f_out != right.linear.f_in:
            what = f"has a Linear with {left.linear.f_out} outputs before one with {right.linear.f_in} inputs"
            raise InputError(where, what, "widths that follow one another")
    for stage in found:
        if stage.norm is not None and stage.norm.scale.size != stage.linear.f_out:
            what = f"has a BatchNorm of {stage.norm.scale.size} behind {stage.linear.f_out} outputs"
            raise InputError(where, what, "as many")
    return tuple(found)


def _members(where: str, arrays: _Arrays, pattern: str) -> dict[int, dict[str, npt.NDArray[Any]]]:
    members: dict[int, dict[str, npt.NDArray[Any]]] = {}
    for key, array in arrays.items():
        match = re.fullmatch(rf"{pattern}(\d{{1,4}})\.(.+)", key)
        if match:
            members.setdefault(int(match[1]), {})[match[2]] = array
    return dict(sorted(members.items()))


def _mlp(
    where: str, arrays: _Arrays, options: Options, linear_of: Callable[..., Linear], norm_of: Callable[..., Norm]
) -> list[Stage]:
    linears, norms = _members(where, arrays, r"lins\."), _members(where, arrays, r"norms\.")
    held = sum(map(len, linears.values())) + sum(map(len, norms.values()))
    if list(linears) != list(range(len(linears))) or set(norms) - set(linears) or held != len(arrays):
        raise InputError(where, f"has {', '.join(arrays)}", _EXPECTED)
    stages = []
    for number, own in linears.items():
        if "weight" not in own:
            raise InputError(f"{where}.lins.{number}", f"has {', '.join(own)}", "a Linear")
        linear = linear_of(f"{where}.lins.{number}", own)
        norm = norm_of(f"{where}.norms.{number}", norms[number], options.norm_eps) if number in norms else None
        # A plain last layer has no norm.
        plain = number + 1 == len(linears) and norm is None and options.plain_last
        stages.append(Stage(linear) if plain else Stage(linear, norm, options.activation, options.act_first))
    return stages


def _sequential(
    where: str, arrays: _Arrays, options: Options, linear_of: Callable[..., Linear], norm_of: Callable[..., Norm]
) -> list[Stage]:
    """Return the stages of a Sequential: a place without arrays has an activation (dropout does nothing)."""
    members = _members(where, arrays, "")
    linears = [number for number, own in members.items() if "weight" in own and own["weight"].ndim == 2]
    if not linears or linears[0] != next(iter(members)) or sum(map(len, members.values())) != len(arrays):
        raise InputError(where, f"has {', '.join(arrays)}", _EXPECTED)
    stages = []
    for place, following in pairwise([*linears, None]):
        assert place is not None
        between = [number for number in members if number > place and (following is None or number < following)]
        if len(between) > 1:
            raise InputError(f"{where}.{between[1]}", "is a second norm behind one Linear", "at most one")
        norm = norm_of(f"{where}.{between[0]}", members[between[0]], options.norm_eps) if between else None
        act_first = bool(between) and between[0] > place + 1
        acts = act_first or (not options.plain_last if following is None else following - place - 1 > len(between))
        stages.append(
            Stage(linear_of(f"{where}.{place}", members[place]), norm, options.activation if acts else None, act_first)
        )
    return stages
