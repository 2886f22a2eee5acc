"""Crossbar: each word of several streams goes to the output that it names."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.stream.arbiter import merge
from hw.stream.hold import hold

__all__ = ["Crossbar", "route"]


class Crossbar(wiring.Component):
    """Joins every input with every output; outputs serve their inputs in turn.

    Of several outputs, each has a register for a word of each input, so a word that waits for its output holds up
    others only if they go there, too. An arbiter sees a word a cycle before it takes it; without these registers an
    input whose words go to ever other outputs would have one in two cycles.

    Parameters
    ----------
    shape
        Shape of a word.
    inputs, outputs
        Numbers of streams.
    field
        The lowest bits of this field name the output of a word; there are as many as the largest number needs.
    whole
        Words have a field ``last``; those of an input up to one with ``last`` have the same output, and pass without
        others between them.

    Attributes
    ----------
    i, o : arrays of streams of `shape`
    busy : Out(1)
        A word is offered or on its way.

    Raises
    ------
    ValueError
        If there is no input or no output.
    """

    def __init__(
        self,
        shape: data.StructLayout,
        inputs: int,
        outputs: int,
        field: str,
        *,
        whole: bool = False,
    ) -> None:
        if inputs < 1:
            raise ValueError(f"inputs must be at least 1, not {inputs!r}")
        if outputs < 1:
            raise ValueError(f"outputs must be at least 1, not {outputs!r}")
        self.shape, self.field, self.whole = shape, field, whole
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)).array(outputs),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Route each input to the crossings of its row, merge those of each column."""
        m = Module()
        busy: list[Value] = [port.valid for port in (*self.i, *self.o)]
        crossings: list[list[Any]] = []
        for n, port in enumerate(self.i):
            row = [stream.Signature(self.shape).create(path=(f"cross_{n}_{k}",)) for k in range(len(self.o))]
            route(m, port, port.payload[self.field][: ceil_log2(len(self.o))], row)
            if len(row) > 1:
                row = [hold(m, f"held_{n}_{k}", crossing, self.shape) for k, crossing in enumerate(row)]
                busy += [crossing.valid for crossing in row]
            crossings.append(row)
        for k, port in enumerate(self.o):
            words, word, _ = merge(
                m, f"merge_{k}", [row[k] for row in crossings], self.shape, whole=self.whole, wide=True
            )
            m.d.comb += [
                Value.cast(port.payload).eq(Value.cast(word)),
                port.valid.eq(words.valid),
                words.ready.eq(port.ready),
            ]
        m.d.comb += self.busy.eq(Cat(busy).any())
        return m


def route(m: Module, source: Any, number: Value | int, targets: Sequence[Any]) -> None:
    """Send each word that a stream offers to the target of this number.

    Parameters
    ----------
    m
        Gets the statements.
    source, targets
        Streams; the words of targets may have more fields.
    number
        Of the word's target; without meaning if there is one only.
    """
    several, word = len(targets) > 1, source.payload
    for n, target in enumerate(targets):
        m.d.comb += target.valid.eq(source.valid & ((number == n) if several else 1))
        m.d.comb += [target.payload[name].eq(word[name]) for name, _ in word.shape()]
    m.d.comb += source.ready.eq(Array(target.ready for target in targets)[number] if several else targets[0].ready)
