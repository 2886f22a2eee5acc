"""Options of the command line that do nothing beside others, refused in one line each.

An option counts as given if it stands on the command line, even with the value that it has by itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from typer.core import TyperCommand

from contracts.errors import InputError

__all__ = ["Strict"]

#: Name of a parameter that does nothing, why, and what was expected.
_Rule = tuple[str, str, str]


class Strict(TyperCommand):
    """A verb that refuses options of its own which it would not look at.

    Raises
    ------
    InputError
        When the verb is called with such an option, naming it and what makes it idle.
    """

    def invoke(self, ctx: Any) -> Any:
        """Check the options, then run the verb."""
        options = {parameter.name: parameter.opts[-1] for parameter in self.params}
        for name, why, expected in _RULES[self.name or ""](ctx.params):
            if ctx.get_parameter_source(name).name == "COMMANDLINE":
                raise InputError(options[name], f"does nothing {why}", expected)
        return super().invoke(ctx)


def _run(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["model_file"] is not None:
        for name in ("layers", "hidden", "activation"):
            yield name, "with --model-file, which says it", "one of the two"
        if not given["batch"] and given["head"] is None:
            yield "seed", "with --model-file", "--batch or --head beside it, or training"
    elif given["layers"] == 1:
        for name in ("hidden", "activation"):
            yield name, "with --layers 1", "at least 2 layers"
    if given["head"] is None:
        yield "head_hidden", "without --head", "--head EPOCHS beside it"
    if not given["batch"]:
        for name in ("batches", "fanout", "order", "slots", "negatives", "replicas"):
            yield name, "without --batch", "--batch ROOTS beside it"
    if given["edits"] is not None:
        yield "session", "with --edits, whose steps are the runs", "one of the two"
    elif not given["session"]:
        yield "clock", "without --session or --edits", "--session RUNS beside it"


def _network(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["model_file"] is not None:
        for name in ("layers", "hidden", "seed"):
            yield name, "with --model-file, which says it", "one of the two"
    elif given["layers"] == 1:
        yield "hidden", "with --layers 1", "at least 2 layers"


def _machine(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["block"] != "machine":
        own = () if given["block"] == "dnp.machine" else ("config",)
        for name in (*own, "chiplets", *(("bus_width",) if "bus_width" in given else ())):
            yield name, f"for {given['block']}", "it with machine in place of a block"


def _synth(given: Mapping[str, Any]) -> Iterator[_Rule]:
    yield from _machine(given)
    if given["tree"]:
        for name in ("fmax", "check", "update"):
            yield name, "with --tree, which prints areas only", "one of the two"
    if given["paths"]:
        for name in ("fmax", "check", "update", "tree", "device"):
            yield name, "with --paths, which prints paths in an ECP5 only", "one of the two"
    if given["device"] == "xilinx":
        for name in ("fmax", "check", "update"):
            yield name, "with --device xilinx, which is for the area only", "--device ecp5"
    if given["update"]:
        yield "check", "with --update, which writes what it compares with", "one of the two"


def _contracts(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["show"]:
        for name in ("out", "check"):
            yield name, "with --print", "one of the two"


def _asm(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["out"] is not None:
        yield "as_json", "with --out, which writes JSON", "one of the two"
    if given["program"].suffix == ".json":
        for name in ("wm_depth", "xm_depth", "p_depth"):
            yield name, "for a dump, which is assembled already", "assembly text"


def _train(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["model_file"] is not None:
        for name in ("hidden", "spread"):
            yield name, "with --model-file, which says it", "one of the two"


def _infer(given: Mapping[str, Any]) -> Iterator[_Rule]:
    if given["model_file"] is not None:
        for name in ("hidden", "seed"):
            yield name, "with --model-file, which says it", "one of the two"


_RULES = {
    "run": _run, "generate": _machine, "synth": _synth, "contracts": _contracts, "asm": _asm, "image": _network,
    "sim": _network, "train": _train, "infer": _infer,
}  # fmt: skip
