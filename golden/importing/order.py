"""The order of a network's layers: from names and widths, since a state dict has no `forward`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, permutations

from contracts.errors import InputError, unknown
from golden.importing.layers import GATConv, Layer, Linear, Norm, Operation, Options
from golden.importing.pooling import PLACE
from golden.importing.recognise import Found
from golden.model.weights import LAYERS_MAX

__all__ = ["layers_of"]

#: Steps after which the search for an order is given up.
_STEPS_MAX = 10_000
_HOW = "--order with the names in the order of forward()"


def layers_of(path: str, found: Sequence[Found], in_order: bool, options: Options) -> tuple[Layer, ...]:
    """Put modules into the order in which they compute, with norms behind their layers and activations between.

    The order is the user's; or that of the numbers where all modules are in one list; or that of the file, if the
    widths follow one another in it and it is the order of definition; or the only one in which they do, with the
    modules of a list in the order of their numbers.

    Parameters
    ----------
    path
        File, for messages.
    found
        Modules.
    in_order
        Whether they stand in the order of definition.
    options
        Order, activation and so on.

    Raises
    ------
    InputError
        If there is no such order, or there are several.
    """
    operations = [module for module in found if not isinstance(module.part, Norm)]
    norms = [module for module in found if isinstance(module.part, Norm)]
    if not operations:
        raise InputError(path, "has no layer", "GCNConv, SAGEConv, GraphConv, GINConv, GATConv or Linear")
    if len(found) > LAYERS_MAX:
        raise InputError(path, f"has {len(found)} layers and norms", f"at most {LAYERS_MAX}")
    if options.order:
        names = [name for name in options.order if name != PLACE or options.pool is None]
        ordered = _as_asked(found, names)
    elif len({_stem(module.name) for module in found}) == 1:
        ordered = sorted(found, key=_numbers)
    else:
        ordered = _with_norms(path, _found_order(path, operations, in_order), norms)
    layers = _layers(path, ordered, options)
    for left, right in pairwise(layers):
        if left.operation.f_out != right.operation.f_in:
            what = f"{left.name} gives {left.operation.f_out} features, {right.name} takes {right.operation.f_in}"
            raise InputError(path, what, f"layers that follow one another; {_HOW}")
    return layers


def _stem(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _numbers(module: Found) -> list[int]:
    return [int(number[:9]) for number in re.findall(r"\d+", module.name)]


def _as_asked(found: Sequence[Found], order: Sequence[str]) -> list[Found]:
    by_name = {module.name: module for module in found}
    for name in order:
        if name not in by_name:
            raise unknown("--order", name, by_name)
    left = [name for name in by_name if name not in order]
    if left or len(set(order)) != len(order):
        what = f"leaves out {', '.join(left)}" if left else "names a module twice"
        raise InputError("--order", what, f"each of {', '.join(by_name)} once")
    return [by_name[name] for name in order]


def _widths(part: Operation, last: bool) -> tuple[int, ...]:
    """Return the number of features that may leave: two where arrays do not show what is done with heads."""
    if isinstance(part, GATConv) and part.concat_is_open and not last:
        return part.source.size, part.source.shape[1]
    return (part.f_out,)


def _follow(modules: Sequence[Found]) -> bool:
    parts = [module.part for module in modules]
    return all(
        not isinstance(left, Norm) and not isinstance(right, Norm) and right.f_in in _widths(left, last=False)
        for left, right in pairwise(parts)
    )


def _found_order(path: str, operations: list[Found], in_order: bool) -> list[Found]:
    if in_order and _follow(operations):
        return operations
    groups: dict[str, list[Found]] = {}
    for module in operations:
        groups.setdefault(_stem(module.name), []).append(module)
    lists = [sorted(group, key=_numbers) for group in groups.values()]
    whole: list[list[Found]] = []
    if len(lists) <= 6:
        whole = [
            joined for way in permutations(lists) if _follow(joined := [module for part in way for module in part])
        ]
    if not whole:
        whole = _interleaved(path, lists)
    if len(whole) == 1:
        return whole[0]
    shown = ", ".join(f"{module.name} [{_in(module)}, {_out(module)}]" for module in operations)
    if not whole:
        convs = sum(_out(module) for module in operations if not isinstance(module.part, Linear))
        last = [module.name for module in operations if isinstance(module.part, Linear) and _in(module) == convs]
        if last and len(operations) > 2:
            raise InputError(path, f"{last[0]} takes the results of all layers: JumpingKnowledge('cat')", "jk=None")
        raise InputError(path, f"layers {shown} do not follow one another", "a chain of layers, without branches")
    raise InputError(path, f"layers {shown} may follow one another in several orders", _HOW)


def _in(module: Found) -> int:
    assert not isinstance(module.part, Norm)
    return module.part.f_in


def _out(module: Found) -> int:
    assert not isinstance(module.part, Norm)
    return module.part.f_out


def _interleaved(path: str, lists: list[list[Found]]) -> list[list[Found]]:
    """Return up to two ways to merge lists, each in its own order, so that widths follow one another."""
    steps = 0

    def ways(places: tuple[int, ...], before: list[Found]) -> Iterator[list[Found]]:
        nonlocal steps
        steps += 1
        if steps > _STEPS_MAX:
            raise InputError(path, "layers may follow one another in very many orders", _HOW)
        left = [number for number, place in enumerate(places) if place < len(lists[number])]
        if not left:
            yield before
        for number in left:
            module = lists[number][places[number]]
            if _follow([*before[-1:], module]):
                after = tuple(place + (other == number) for other, place in enumerate(places))
                yield from ways(after, [*before, module])

    found = []
    for way in ways((0,) * len(lists), []):
        found.append(way)
        if len(found) == 2:
            break
    return found


def _with_norms(path: str, operations: list[Found], norms: list[Found]) -> list[Found]:
    """Put every norm behind the layer of its number, of its rank, or the only one of its width."""
    behind: dict[str, Found] = {}
    groups: dict[str, list[Found]] = {}
    for norm in norms:
        groups.setdefault(_stem(norm.name), []).append(norm)
    for group in groups.values():
        group.sort(key=_numbers)
        for norm, module in zip(group, _places(path, operations, group), strict=True):
            if module.name in behind:
                raise InputError(f"{path}, {norm.name}", f"is a second norm behind {module.name}", _HOW)
            behind[module.name] = norm
    ordered = []
    for module in operations:
        ordered += [module, behind[module.name]] if module.name in behind else [module]
    return ordered


def _places(path: str, operations: list[Found], group: list[Found]) -> list[Found]:
    """Return the layers that the norms of a list stand behind."""
    stems: dict[str, list[Found]] = {}
    for module in operations:
        stems.setdefault(_stem(module.name), []).append(module)
    # Convolutions before Linears.
    lists = sorted(stems.values(), key=lambda modules: isinstance(modules[0].part, Linear))
    numbered = [
        [module for number in map(_numbers, group) for module in modules if number and _numbers(module) == number]
        for modules in lists
    ]
    # Lists of different lengths that begin with different numbers, and norms without a number.
    ranked = [modules[: len(group)] for modules in lists]
    fits = [places for places in numbered + ranked if _fit(places, group)]
    only = [module for module in operations if _fit([module], group[:1])]
    if len(group) == 1 and not _numbers(group[0]):
        fits = [only] if len(only) == 1 else []
    if not fits:
        names = ", ".join(norm.name for norm in group)
        raise InputError(path, f"has {names}: which layers they stand behind is not clear", _HOW)
    return fits[0]


def _fit(places: Sequence[Found], group: Sequence[Found]) -> bool:
    return len(places) == len(group) and all(
        isinstance(norm.part, Norm)
        and not isinstance(module.part, Norm)
        and norm.part.scale.size in _widths(module.part, last=False)
        for module, norm in zip(places, group, strict=True)
    )


def _layers(path: str, ordered: Sequence[Found], options: Options) -> tuple[Layer, ...]:
    """Return layers with what stands behind each, up to the next."""
    layers: list[Layer] = []
    places = [place for place, module in enumerate(ordered) if not isinstance(module.part, Norm)]
    if places[0] != 0:
        what = "is a norm before the first layer"
        raise InputError(f"{path}, {ordered[0].name}", what, "norms behind layers; normalise the features instead")
    for place, following in zip(places, [*places[1:], None], strict=True):
        module, after = ordered[place], ordered[place + 1 : following]
        assert not isinstance(module.part, Norm)
        part = module.part
        if len(after) > 1:
            raise InputError(f"{path}, {after[1].name}", f"is a second norm behind {module.name}", "at most one")
        wanted = after[0].part.scale.size if after and isinstance(after[0].part, Norm) else None
        if wanted is None and following is not None:
            wanted = _in(ordered[following])
        if isinstance(part, GATConv) and part.concat_is_open and wanted is not None:
            part = replace(part, concat=wanted == part.source.size)
        norm = after[0].part if after else None
        assert norm is None or isinstance(norm, Norm)
        if norm is not None and norm.scale.size != part.f_out:
            what = f"normalises {norm.scale.size} features"
            raise InputError(f"{path}, {after[0].name}", what, f"{part.f_out}, as {module.name} gives; {_HOW}")
        acts = following is not None and _gap([module, *after, ordered[following]])
        layers.append(Layer(module.name, part, norm, options.activation if acts else None, options.act_first))
    return tuple(layers)


def _gap(modules: Sequence[Found]) -> bool:
    """Return whether something without arrays stands between: always, but where a Sequential shows that it does not."""
    found = [re.fullmatch(r"(?:.*\.)?module_(\d{1,9})", module.name) for module in modules]
    places = [int(match[1]) for match in found if match]
    return len(places) < len(modules) or places[-1] - places[0] >= len(modules)
