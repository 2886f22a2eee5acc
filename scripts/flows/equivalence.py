"""Whether a mutant behaves like the original at every port, as far as the rules of streams define that."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from hw.stream.ports import flat_ports
from scripts.flows.yosys import ToolError, program, yosys
from sim.harness.formal import environment
from sim.harness.ports import StreamPort, stream_ports

Verdict = Literal["proved", "bounded", "different"]
#: Cycles over which registers are assumed equal in the proof.
INDUCTION = 4
#: Rows of memories whose bits are looked at one by one.
ROWS = 16


def miter(component: Any, top: str, number: int, width: int) -> str:
    """Return Verilog that runs original (``mutsel`` 0) and mutant side by side and asserts equal outputs.

    Inputs keep the rules of streams. A payload counts only while its ``valid`` is high. Names are escaped, as a port
    may have that of a keyword.
    """
    ports = [(port.name, port.inward, port.width) for port in flat_ports(component)]
    streams = {port.name: port for port in stream_ports(component)}
    declared = ["input clk", "input rst", *(f"input [{w - 1}:0] \\{n} " for n, inward, w in ports if inward)]
    lines = [f"module miter({', '.join(declared)});"]
    for side, value in (("a", 0), ("b", number)):
        lines += [f"  wire [{w - 1}:0] {side}_{n};" for n, inward, w in ports if not inward]
        connections = [f".\\{n} (\\{n if inward else f'{side}_{n}'} )" for n, inward, _ in ports]
        lines.append(
            f"  \\{top} {side} (.clk(clk), .rst(rst), .mutsel({width}'d{value})"
            + "".join(f", {connection}" for connection in connections)
            + ");"
        )
    for name, inward, _ in ports:
        if not inward:
            lines.append(f"  always @* assert ({_relevant(name, streams)} || a_{name} == b_{name});")
    for port in streams.values():
        if port.inward and not port.always_valid and not port.always_ready:
            lines += _rules(port)
    return "\n".join([*lines, "endmodule", ""])


def _relevant(name: str, streams: Mapping[str, StreamPort]) -> str:
    stem, _, last = name.rpartition("__")
    port = streams.get(stem)
    if port is not None and last == "payload" and not port.always_valid:
        return f"!a_{stem}__valid"
    return "1'b0"


def _rules(port: StreamPort) -> list[str]:
    name = port.name
    held = f"{name}__payload == {name}_held" if port.width else "1'b1"
    store = f"{name}_held <= {name}__payload;" if port.width else ""
    return [
        f"  reg {name}_waits = 0; reg [{max(1, port.width) - 1}:0] {name}_held = 0;",
        f"  always @(posedge clk) begin {name}_waits <= {name}__valid && !a_{name}__ready && !rst; {store} end",
        f"  always @* assume (!{name}_waits || rst || ({name}__valid && {held}));",
    ]


def _selection(text: str) -> int:
    """Return the width of ``mutsel`` in the RTLIL of a mutated design."""
    size = re.search(r"wire width (\d+) input \d+ +\\mutsel", text)
    return int(size[1]) if size else 1


def proved(folder: Path, module: str, number: int, limit: float) -> bool:
    """Return whether a mutant's own module has the same outputs and next states from every state, for ever.

    Registers and outputs are compared one by one, each assuming that all others are equal. That is quick and needs no
    depth, but a mutant that differs only in states that are never reached is not recognised. First parts of the module
    are left out, what they get counting as outputs and what they give as inputs; then everything is taken together.
    """
    return any(_proved(folder, module, number, limit, how) for how in ("expose -evert", "flatten"))


def _proved(folder: Path, module: str, number: int, limit: float, parts: str) -> bool:
    width = _selection((folder / "mutated.il").read_text())
    sides = "".join(
        f"cd {side}\ndelete -input mutsel\nconnect -set mutsel {width}'d{value}\ncd ..\n"
        for side, value in (("gold", 0), ("gate", number))
    )
    script = (
        f"read_rtlil mutated.il\nhierarchy -top \\{module}\nproc\n{parts}\nmemory_map\nopt_clean\n"
        f"rename \\{module} gold\ncopy gold gate\n{sides}opt_expr\nopt_clean\n"
        # Only ports and registers have to agree; what lies between may differ.
        "select -set registers t:*dff* %co1:+[Q] w:* %i\nrename -hide w:* @registers %d\n"
        "equiv_make gold gate equal\nhierarchy -top equal\nopt_clean\n"
        f"equiv_simple\nequiv_induct -seq {INDUCTION}\nequiv_status -assert\n"
    )
    try:
        yosys(script, cwd=folder, name=f"proved{number}", timeout=limit)
    except ToolError:
        return False
    return True


def without_effect(folder: Path, numbers: Iterable[int], limit: float) -> set[int]:
    """Return those of the mutants `numbers` that change nothing that any output depends on, whatever the state.

    All mutants are looked at together: the design is flattened, taken apart into gates and optimised with the selection
    as an input. A mutant whose number the selection is not compared with any more has gone with what it led to: a bit
    that no output, no memory and no register with a way to one depends on, or one that has the mutant's value anyway.

    Parameters
    ----------
    folder
        Where ``mutated.il`` is.
    numbers
        Their values of ``mutsel``.
    limit
        Seconds; with more nothing is known of any mutant.
    """
    try:
        yosys(
            "read_rtlil mutated.il\nhierarchy -auto-top\nproc\nflatten\nopt_clean\nopt -fine\nwreduce\nopt_clean\n"
            # Words that are hardly more than registers, so that bits of them can go.
            f"memory_map t:$mem_v2 r:SIZE<={ROWS} %i\nopt_clean\n"
            "techmap c:* t:$eq %d\nopt -fine\nwrite_json left.json\n",
            cwd=folder,
            name="left",
            timeout=limit,
        )
    except ToolError:
        return set()
    modules = json.loads((folder / "left.json").read_text())["modules"].values()
    (top,) = (module for module in modules if int(module["attributes"].get("top", "0"), 2))
    gone = set(numbers)
    selection = top["ports"]["mutsel"]["bits"]
    for cell in top["cells"].values():
        pins = cell["connections"]
        if not set(selection).intersection(bit for bits in pins.values() for bit in bits):
            continue
        sides = [pins.get("A"), pins.get("B")]
        if cell["type"] != "$eq" or selection not in sides:
            return set()  # the selection is looked at in a way that says nothing about one number
        sides.remove(selection)
        gone.discard(int("".join(reversed(sides[0])), 2))
    return gone


def compare(component: Any, folder: Path, module: str, number: int, depth: int, limit: float) -> Verdict:
    """Say how mutant `number` compares with the original.

    Parameters
    ----------
    component
        A component with the same ports.
    folder
        Where ``mutated.il`` is.
    module
        Module that the mutant is in.
    number
        Value of ``mutsel``.
    depth
        Cycles from reset; a difference that needs more is not seen, so the depth has to fit the block.
    limit
        Seconds for each of the two comparisons; a mutant undecided by then counts as different.

    Returns
    -------
    Verdict
        ``"proved"`` equal for ever, ``"bounded"`` equal for `depth` cycles, or ``"different"``.
    """
    if proved(folder, module, number, limit):
        return "proved"
    text = (folder / "mutated.il").read_text()
    found = re.search(r"attribute \\top 1\n(?:\s*attribute .*\n)*module (\S+)", text)
    assert found is not None, f"{folder}: no top module"
    top = found[1].removeprefix("\\")
    stem = f"equal{number}"
    (folder / f"{stem}.sv").write_text(miter(component, top, number, _selection(text)))
    (folder / f"{stem}.sby").write_text(
        f"[options]\nmode bmc\ndepth {depth}\ntimeout {limit:.0f}\n[engines]\nsmtbmc yices\n"
        f"[script]\nread_rtlil mutated.il\nread_verilog -sv -formal {stem}.sv\n"
        "hierarchy -top miter\nproc\nflatten\nopt -full\nprep -top miter\n"
        f"[files]\nmutated.il\n{stem}.sv\n"
    )
    done = subprocess.run(
        [program("yowasp-sby"), "-f", "-d", stem, f"{stem}.sby"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    (folder / f"{stem}.log").write_text(done.stdout + done.stderr)
    return "bounded" if done.returncode == 0 else "different"
