"""Stream ports of a component, found from its signature, and the rule checker bound to each.

The rules of a stream (checked in every cycle of every bench, in Verilog so that they cost no Python):
once ``valid`` is raised it stays until ``ready`` takes the payload, and the payload does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import stream, wiring

#: Checker module, one instance bound to each stream port. `$error` stops a Verilator run and fails the test.
STREAM_RULES = """
module stream_rules #(parameter WIDTH = 1, parameter NAME = "") (
  input clk, input rst, input valid, input ready, input [WIDTH-1:0] payload);
  reg waiting = 0;
  reg [WIDTH-1:0] held = 0;
  always @(posedge clk) begin
    waiting <= valid && !ready && !rst;
    held <= payload;
    if (waiting && !rst && !valid) $error("stream %s: valid dropped before ready", NAME);
    if (waiting && !rst && valid && held != payload)
      $error("stream %s: payload changed from %0h to %0h while it waited for ready", NAME, held, payload);
  end
endmodule
"""


@dataclass(frozen=True)
class StreamPort:
    """One stream at the boundary of a design under test.

    Attributes
    ----------
    name
        Path joined with ``__``, as in the Verilog port names: ``i``, ``i__0``, ``bus__request``.
    inward
        Whether the design receives (`True`) or sends (`False`) on it.
    width
        Width of the payload in bits; 0 where there is no payload port.
    always_valid, always_ready
        Whether the port ``valid`` or ``ready`` is missing because it is always 1.
    """

    name: str
    inward: bool
    width: int
    always_valid: bool = False
    always_ready: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the port as what JSON can carry."""
        return asdict(self)


def _walk(members: Any, path: tuple[str, ...], flipped: bool) -> Iterator[tuple[tuple[str, ...], bool, Any]]:
    for name, member in members.items():
        if not member.is_signature:
            continue
        for index in product(*(range(size) for size in member.dimensions)):
            where = (*path, name, *map(str, index))
            signature = member.signature
            # A member with flow In hands out its signature flipped already.
            turned = isinstance(signature, wiring.FlippedSignature)
            plain = signature.flip() if turned else signature
            inward = turned ^ flipped
            if isinstance(plain, stream.Signature):
                yield where, inward, plain
            else:
                yield from _walk(plain.members, where, inward)


def stream_shapes(component: Any) -> dict[str, Any]:
    """Return the payload shape (an Amaranth shape or layout) of every stream port by its name."""
    return {
        "__".join(path): sig.members["payload"].shape for path, _, sig in _walk(component.signature.members, (), False)
    }


def stream_ports(component: Any) -> tuple[StreamPort, ...]:
    """Return every stream in the signature of `component`, nested interfaces and arrays included."""
    return tuple(
        StreamPort(
            name="__".join(path),
            inward=inward,
            width=Shape.cast(sig.members["payload"].shape).width,
            always_valid=sig.always_valid,
            always_ready=sig.always_ready,
        )
        for path, inward, sig in _walk(component.signature.members, (), False)
    )


def rules_source(toplevel: str, ports: tuple[StreamPort, ...], *, reset: bool = True) -> str:
    """Return SystemVerilog that binds the rule checker to every handshaken stream port of `toplevel`.

    Without `reset` the design has no port ``rst``: nothing in it needs one.
    """
    lines = [STREAM_RULES]
    level = "rst" if reset else "1'b0"
    for port in ports:
        if port.always_ready or port.always_valid:
            continue
        payload = f"{port.name}__payload" if port.width else "1'b0"
        lines.append(
            f'bind {toplevel} stream_rules #(.WIDTH({max(1, port.width)}), .NAME("{port.name}")) {port.name}__rules '
            f"(.clk(clk), .rst({level}), .valid({port.name}__valid), .ready({port.name}__ready), .payload({payload}));"
        )
    return "\n".join(lines) + "\n"
