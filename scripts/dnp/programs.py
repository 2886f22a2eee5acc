"""Reading programs, running them in the golden machine or in RTL, and showing what they left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import PORTS, Control, StopCode
from contracts.errors import InputError
from golden.dnp.array import ArrayModel, DeadlockError, EdgePort
from golden.dnp.assembler import AssemblyError, Image, assemble
from golden.dnp.disassembler import disassemble, one
from golden.dnp.state import COMMIT, Slot
from golden.files import read_text
from scripts.blocks import UserError
from sim.harness.run import simulate

__all__ = [
    "dump",
    "finished",
    "listing",
    "load",
    "parse_inputs",
    "result",
    "run_golden",
    "run_rtl",
    "show",
    "stuck",
    "trace",
]

#: Clocks after which a program is thought not to end, unless more are asked for; half a minute of the golden machine.
LIMIT = 100_000
_WORD = 0xFFFF
#: Clocks in which the last words leave the output buffers.
_DRAIN = 2


def load(path: Path, config: ProcessorConfig) -> Image:
    """Assemble a file, or read a JSON dump of :func:`dump`.

    Raises
    ------
    InputError
        If the file cannot be read, or a dump is not one or has no room in these memories.
    UserError
        With the complaints of the assembler, a line each.
    """
    text = read_text(path, "assembly text, or a dump of `atoll asm`")
    if path.suffix == ".json":
        return _dumped(path, text, config)
    try:
        return assemble(text, str(path), config)
    except AssemblyError as error:
        raise UserError(str(error)) from error


def _dumped(path: Path, text: str, config: ProcessorConfig) -> Image:
    """Read a dump; everything in it is checked, since it may be written by hand."""
    expected = "a dump of `atoll asm`: {program: [word, ...], wm: {address: word}, xm: {address: word}}"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not JSON ({error})", expected) from None
    if not isinstance(data, dict) or not isinstance(data.get("program"), list):
        raise InputError(path, "has no program", expected)
    _check_words(path, "program", data["program"])
    if len(data["program"]) > config.p_depth:
        raise InputError(f"{path}, program", f"has {len(data['program'])} words", f"at most {config.p_depth}")
    memories = []
    for name, depth in (("wm", config.wm_depth), ("xm", config.xm_depth)):
        words = data.get(name, {})
        if not isinstance(words, dict):
            raise InputError(f"{path}, {name}", f"is {type(words).__name__}", expected)
        _check_words(path, name, words.values())
        for address in words:
            if not re.fullmatch("[0-9]{1,5}", address) or int(address) >= depth:
                raise InputError(f"{path}, {name}", f"has the address {address!r}", f"addresses in 0..{depth - 1}")
        memories.append({int(address): word & _WORD for address, word in words.items()})
    return Image([word & _WORD for word in data["program"]], memories[0], memories[1])


def _check_words(path: Path, name: str, words: Iterable[Any]) -> None:
    for word in words:
        if type(word) is not int or not -0x8000 <= word <= _WORD:
            shown = word if isinstance(word, int | float) else type(word).__name__
            raise InputError(f"{path}, {name}", f"has the word {shown!s:.40}", "whole numbers in -32768..65535")


def dump(image: Image) -> str:
    """Return the image as JSON: program words, memory words by address, labels."""
    return json.dumps({"program": image.program, "wm": image.wm, "xm": image.xm, "labels": image.labels}, indent=1)


def listing(words: list[int]) -> str:
    """Return address, words and text of every instruction."""
    rows = disassemble(words)
    ends = [*(address for address, _ in rows), len(words)][1:]
    return "\n".join(
        f"{address:5d}  {' '.join(f'{word:04x}' for word in words[address:end]):9}  {text}"
        for (address, text), end in zip(rows, ends, strict=True)
    )


def parse_inputs(given: list[str]) -> dict[str, list[int]]:
    """Read ``W=1,2,3`` as words that arrive at a port.

    Raises
    ------
    InputError
        If it is written otherwise, or a port is named twice.
    """
    inputs: dict[str, list[int]] = {}
    expected = f"PORT=word,word,… with PORT one of {' '.join(PORTS)} and words in -32768..65535"
    for text in given:
        port, equals, words = text.partition("=")
        try:
            found = [int(word, 0) for word in words.split(",") if word.strip()]
        except ValueError:
            raise InputError("--in", f"is {text!r}", expected) from None
        if port.upper() not in PORTS or not equals or port.upper() in inputs:
            twice = ", a port that has words already" if port.upper() in inputs else ""
            raise InputError("--in", f"is {text!r}{twice}", expected)
        if any(not -0x8000 <= word <= _WORD for word in found):
            raise InputError("--in", f"is {text!r}", expected)
        inputs[port.upper()] = found
    return inputs


def prepared(image: Image, inputs: dict[str, list[int]], config: ProcessorConfig) -> ArrayModel:
    """Return a started machine of one processor, its neighbours ready to send `inputs` and to take everything."""
    machine = ArrayModel(config)
    machine.load(0, image.program, image.wm, image.xm)
    machine.start()
    for port, words in inputs.items():
        signed = [word - 0x10000 if word > 0x7FFF else word for word in words]
        machine.edges[(PORTS.index(port), 0)] = EdgePort(signed)
    return machine


def trace(machine: ArrayModel, image: Image, limit: int = LIMIT) -> Iterator[str]:
    """Run to the end; yield a line for every instruction as the add stage carries it out.

    Raises
    ------
    DeadlockError, TimeoutError
        As for `ArrayModel.run`.
    """
    state = machine.state
    texts: dict[int, str] = {}
    for address, text in disassemble(image.program):
        texts |= dict.fromkeys(range(address, address + one(image.program, address)[1]), text)
    while not state.halted.all():
        slot, waited = state.pipe[COMMIT][:, 0].copy(), int(state.blocked[0])
        clock = machine.clock
        if clock >= limit:
            raise TimeoutError(f"still running after {clock} clocks")
        if not machine.step():
            raise DeadlockError(machine.explain())
        if not slot[Slot.VALID]:
            continue
        pc = int(slot[Slot.PC])
        text = texts.get(pc, "(past the end)")
        waits = "  (waits)" if state.blocked[0] > waited else ""
        yield f"{clock:6d}  {pc:5d}  {text:32}  A = {int(state.a[0]):6d}{waits}"


def run_golden(machine: ArrayModel, limit: int = LIMIT) -> dict[str, Any]:
    """Run the machine to its end, at most `limit` clocks, and return :func:`result`."""
    machine.run(limit)
    return finished(machine)


def finished(machine: ArrayModel) -> dict[str, Any]:
    """Let the words in the output buffers leave, then return :func:`result`."""
    for _ in range(_DRAIN):
        machine.step()
    return result(machine)


def result(machine: ArrayModel) -> dict[str, Any]:
    """Return registers, memories and counters of the first processor, as JSON can hold them."""
    s = machine.state
    return {
        "stopped": "HALT" if s.code[0] == StopCode.NONE else StopCode(int(s.code[0])).name,
        "address": int(s.stop_pc[0]),
        "clocks": int(s.clocks[0]),
        "instructions": int(s.instructions[0]),
        "blocked": int(s.blocked[0]),
        "a": int(s.a[0]),
        "general": s.rf[0].tolist(),
        "control": {c.name: int(s.control[0, c]) for c in Control},
        "wm": {int(a): int(s.wm[0, a]) for a in s.wm[0].nonzero()[0]},
        "xm": {int(a): int(s.xm[0, a]) for a in s.xm[0].nonzero()[0]},
        "sent": {PORTS[side]: end.received for (side, _), end in machine.edges.items() if end.received},
    }


def stuck(program: str, error: DeadlockError) -> InputError:
    """Error for a program that waits for a word that the host does not send."""
    return InputError(program, str(error), "words for every port that is read: --in W=1,2,3")


def run_rtl(image: Image, inputs: dict[str, list[int]], config: ProcessorConfig) -> None:
    """Run the program in RTL and compare every register, memory word and counter with the golden machine.

    Raises
    ------
    AssertionError
        If they differ.
    """
    from hw.dnp.core import Core

    parameters = {
        "program": image.program,
        "wm": image.wm,
        "xm": image.xm,
        "inputs": inputs,
        "config": [config.wm_depth, config.xm_depth, config.p_depth, config.table_bits],
    }
    simulate(Core(config), "sim.dnp.run_program", name="dnp_core", parameters=parameters)


def show(found: dict[str, Any]) -> str:
    """Return a result as text."""
    control = found["control"]
    lines = [
        f"stopped: {found['stopped']} at {found['address']} after {found['clocks']} clocks, "
        f"{found['instructions']} instructions, {found['blocked']} clocks waiting for partners",
        f"A  {found['a']}",
        "RF " + " ".join(f"{value:6d}" for value in found["general"]),
    ]
    for group in ("WA", "WR", "XA", "XR"):
        lines.append(f"{group} " + " ".join(f"{control[f'{group}{i}']:6d}" for i in range(4)))
    lines.append(" ".join(f"{name} {control[name]}" for name in ("ICR", "RC", "LC0", "LC1", "IOPR", "TB")))
    for memory in ("wm", "xm"):
        words = found[memory]
        lines.append(f"{memory.upper()} " + (" ".join(f"[{a}]={v}" for a, v in words.items()) or "all 0"))
    for port, words in found["sent"].items():
        lines.append(f"sent {port}: {' '.join(map(str, words))}")
    return "\n".join(lines)
