"""What documents name exists: files, modules, commands with their options, tests, and the areas that are checked in."""

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from scripts.bench.catalogue import BENCHES
from scripts.blocks import BLOCKS
from scripts.cli import app
from sim.harness import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = {"configs", "contracts", "docs", "golden", "hw", "scripts", "sim", "soc", "tb"}
#: Rows of the four sources.
ROWS = [f"{letter}{n}" for letter, last in (("R", 19), ("I", 11), ("A", 10), ("D", 14)) for n in range(1, last + 1)]
#: Verbs with verbs of their own.
GROUPS = ("dnp", "soc")
#: Columns of tables of areas, and what `tb/expected.toml` calls them.
AREAS = {
    "LUTs": "luts",
    "FFs": "ffs",
    "flip-flops": "ffs",
    "DSPs": "dsps",
    "multipliers": "dsps",
    "18x18 multipliers": "dsps",
    "block RAMs": "brams",
    "BRAMs": "brams",
}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A placeholder of a text: `BLOCK`, `DIR/cora`, `hw/<area>/<block>.py`, an option's `FILE`.
_PLACEHOLDER = re.compile(r"[A-Z]{3,}|[<>…$*]")


def text_of(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def spans(page: Path) -> list[str]:
    """Return what stands between single backquotes."""
    return _SPAN.findall(text_of(page))


def lines_of_code(page: Path) -> Iterator[str]:
    """Yield spans, and lines of blocks that are commands or output."""
    yield from spans(page)
    for language, block in _FENCE.findall(page.read_text()):
        if language in ("", "sh", "console"):
            yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"^    (atoll .*)$", text_of(page), re.MULTILINE)


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the heading and the rows of every table."""
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        head, _, *rows = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in table.splitlines()
        ]
        yield head, rows


def module_exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name within one."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:end])
        if path.is_dir() or path.with_suffix(".py").is_file():
            break
    else:
        return False
    if end == len(parts):
        return True
    found: object = importlib.import_module(".".join(parts[:end]))
    for name in parts[end:]:
        if hasattr(found, name):
            found = getattr(found, name)
        else:
            return name in getattr(found, "__annotations__", {})
    return True


def block_exists(dotted: str) -> bool:
    """Whether a name is a block of `atoll generate`, or a module in one of the trees that have the same folders."""
    return any(block.name == dotted for block in BLOCKS) or any(
        module_exists(f"{tree}.{dotted}") for tree in ("hw", "golden", "contracts", "sim")
    )


def names_of_tests() -> set[str]:
    """Return the names of all functions of benches, and of all files in them."""
    found = set()
    for path in (ROOT / "tb").rglob("*.py"):
        found.add(path.name)
        found.update(re.findall(r"^(?:async )?def (\w+)", path.read_text(), re.MULTILINE))
    return found


TESTS = names_of_tests()
_AREAS_OF_BLOCKS = {path.name for path in (ROOT / "hw").iterdir() if path.is_dir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page: Path) -> None:
    missing = []
    for token in spans(page):
        if _PLACEHOLDER.search(token) or " " in token:
            continue
        if token.partition("/")[0] in FOLDERS and "/" in token:
            if not (ROOT / token).exists():
                missing.append(token)
        elif re.fullmatch(r"(test|formal)_\w+\.py", token) and token not in TESTS:
            missing.append(token)
    assert not missing, f"{page.name} names files that do not exist: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for link in _LINK.findall(text_of(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert not missing, f"{page.name} has links that lead nowhere: {missing}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_blocks_exist(page: Path) -> None:
    missing = []
    for token in spans(page):
        dotted = re.fullmatch(r"([a-z_]\w*)((?:\.\w+)+)(?:\(.*)?", token)
        if not dotted or token.endswith((".py", ".md", ".json", ".toml", ".png", ".html", ".sv", ".cpp", ".core")):
            continue
        first, name = dotted[1], dotted[1] + dotted[2]
        if (first in FOLDERS and not module_exists(name)) or (first in _AREAS_OF_BLOCKS and not block_exists(name)):
            missing.append(token)
    assert not missing, f"{page.name} names modules that do not exist: {missing}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in _AREAS_OF_BLOCKS], ids=lambda page: page.name)
def test_tables_of_blocks_name_files(page: Path) -> None:
    """The page of an area names its blocks without the area."""
    missing = [
        token
        for head, rows in tables(page.read_text())
        if head[0].startswith("block")
        for row in rows
        for token in _SPAN.findall(row[0])
        if re.fullmatch(r"\w+", token) and not (ROOT / "hw" / page.stem / f"{token}.py").is_file()
        if not block_exists(f"{page.stem}.{token}")
    ]
    assert not missing, f"{page.name} names blocks that do not exist: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    wrong = [line for code in lines_of_code(page) if (line := code.strip()) and not command_exists(line)]
    assert not wrong, f"{page.name} names commands that do not exist: {wrong}"


def command_exists(line: str) -> bool:
    """Whether a command of the project can be called so; true for everything else."""
    line = line.removeprefix("$ ").split("  #")[0]
    words = [word for word in line.split() if not re.fullmatch(r"\w+=\S*", word)]
    program = words[0].removeprefix(".venv/bin/") if words else ""
    if program == "atoll":
        return verb_exists(words[1:])
    if program == "make":
        targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        return all(word in targets for word in words[1:2])
    if program == "pytest":
        return all((ROOT / word).exists() for word in words if word.startswith("tb/") and not _PLACEHOLDER.search(word))
    if words[:2] == ["python", "-m"]:
        return module_exists(words[2])
    if line.startswith("--"):
        options = {option for verb in verbs().values() for option in options_of(verb)}
        return words[0].partition("=")[0] in options
    return True


def verbs() -> dict[str, typer.core.TyperCommand]:
    """Return every verb of the program, those of a group with it in front."""
    group = typer.main.get_command(app)
    found = dict(group.commands)  # type: ignore[attr-defined]
    for name in GROUPS:
        found |= {f"{name} {verb}": command for verb, command in found.pop(name).commands.items()}
    return found


def options_of(verb: typer.core.TyperCommand) -> set[str]:
    """Return all options of a verb."""
    return {option for parameter in verb.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def verb_exists(words: list[str]) -> bool:
    """Whether the verb, its options, and the block, benchmark or configuration that it is given exist."""
    if not words or words[0].startswith("-"):
        return True  # the program itself
    verb = " ".join(words[:2]) if words[0] in GROUPS else words[0]
    rest = words[len(verb.split()) :]
    if verb not in verbs():
        return verb in GROUPS
    known = options_of(verbs()[verb])
    if any(word.startswith("-") and word.partition("=")[0] not in known for word in rest):
        return False
    value = rest[0] if rest and not rest[0].startswith("-") and not _PLACEHOLDER.search(rest[0]) else None
    if verb == "bench" and value not in (None, "all", *BENCHES):
        return False
    areas = {block.name.partition(".")[0] for block in BLOCKS}
    blocks = {"all", "machine", *areas, *(block.name for block in BLOCKS)}
    if verb in ("generate", "synth", "formal", "mutate", "cover") and value not in (None, *blocks):
        return False
    if "--config" not in rest[:-1]:
        return True
    config = rest[rest.index("--config") + 1]
    return bool(_PLACEHOLDER.search(config)) or config.endswith(".toml") or (ROOT / f"configs/{config}.toml").is_file()


@pytest.mark.parametrize(
    "line",
    ["atoll sing", "atoll run karate --loud", "atoll bench noise", "atoll synth stream.cue", "atoll run --config huge",
     "make haste", "python -m scripts.poem", ".venv/bin/pytest tb/poem", "--loud"],
)  # fmt: skip
def test_what_does_not_exist_is_noticed(line: str) -> None:
    assert not command_exists(line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_areas_are_those_checked_in(page: Path) -> None:
    expected = tomllib.loads((ROOT / "tb" / "expected.toml").read_text())["area"]
    wrong = []
    for head, rows in tables(page.read_text()):
        columns = {at: AREAS[name] for at, name in enumerate(head) if name in AREAS}
        if "luts" not in columns.values():
            continue
        for row in rows:
            block = next(iter(_SPAN.findall(row[0])), "")
            area = expected.get(block if "." in block else f"{page.stem}.{block}")
            found = {name: int(row[at].replace(",", "") or 0) for at, name in columns.items()}
            if area and found != {name: area[name] for name in found}:
                wrong.append(f"{block}: {found}, checked in {area}")
    assert not wrong, f"{page.name}: " + "; ".join(wrong)


def traced() -> dict[str, list[str]]:
    """Return the cells of the table of requirements by row."""
    found = {}
    for head, rows in tables((ROOT / "docs" / "traceability.md").read_text()):
        assert head == ["row", "hardware", "golden", "tests", "open"]
        for names, *cells in rows:
            found.update(dict.fromkeys(names.split(", "), cells))
    return found


def test_every_requirement_is_traced() -> None:
    assert set(ROWS) <= set(traced())


@pytest.mark.parametrize("row", traced())
def test_a_row_names_modules_and_tests_that_exist_and_says_what_is_open(row: str) -> None:
    hardware, golden, tests, open_ = traced()[row]
    assert all((hardware, golden, tests, open_)), f"{row} has an empty cell"
    modules = [*modules_of(("hw",), hardware), *modules_of(("golden", "contracts"), golden)]
    assert modules, f"{row} names no module"
    missing = [module for module in modules if not module_exists(module)]
    named = [token for token in _SPAN.findall(tests) if re.fullmatch(r"[\w/.]+", token)]
    files = [token for token in named if "/" in token or token.endswith(".py")]
    functions = [token for token in named if token not in files]
    assert files or functions or "`atoll bench" in tests, f"{row} names no test"
    missing += [path for path in files if not ((ROOT / path).exists() if "/" in path else path in TESTS)]
    missing += [name for name in functions if not any(test.startswith(name.removesuffix("...")) for test in TESTS)]
    assert not missing, f"{row} names what does not exist: {missing}"


def modules_of(trees: tuple[str, ...], cell: str) -> Iterator[str]:
    """Yield the modules of a cell; one without an area lies in that of the one before, or in the tree itself.

    A name is looked for in the trees in their order; one that is in none of them counts as of the first.
    """
    area = ""
    for token in _SPAN.findall(cell):
        if "/" in token or token.partition(".")[0] in trees:
            yield token.removesuffix(".py").replace("/", ".")
            continue
        if "." in token:
            area = token.partition(".")[0]
            names = [token]
        else:
            names = [f"{area}.{token}", token] if area else [token]
        places = [f"{tree}.{name}" for name in names for tree in trees]
        yield next((place for place in places if module_exists(place)), places[-1])
