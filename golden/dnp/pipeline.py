"""Forward passes of a stream of samples on a torus, overlapped: no processor waits for a sample's way (D11-D13).

A pass of one sample waits for words on their way round the rings. In a stream another sample's products fill that
time. In step k every processor carries out layer 1 of sample k, layer 2 of sample k - 1, and so on; what a phase needs
was spread a step before. Between the rows of products of a phase stand, evenly shared out, the words of another one:

- in phase l > 1 the values that phase l - 1 has just finished, on their way round their ring;
- in all phases inputs of sample k + 1, passed on from the host's side, and outputs of the sample finished before. Both
  go against the sums of even layers. Two neighbours that waited for each other in every row would lose two clocks each
  time, so a processor passes words of the host on later the farther they have come.

Values have two halves of XM, one that is read and one that is written. In the loop of two steps all pointers run on
from phase to phase, half to half; three moves between registers a step bring them back. Then a step takes the clocks of
the processor with most instructions, whatever the length of the rings: for blocks of N and M neurons N·M products, M
sums passed on and N words received, and about 6 for pointers, counters and the loop.

All communication can be done in one order, that of the times at which instructions are due: what a processor passes on
was due no later upstream, and a link has room for what is due earlier on one end than on the other. So programs cannot
deadlock.
"""

from dataclasses import dataclass

from golden.dnp.program_text import ProgramText

__all__ = ["StreamText", "stream_program"]

#: Registers that hold the addresses of the first weight, the first input and the first value of a hidden neuron.
_WEIGHTS, _INPUTS, _VALUES = "RF7", "RF6", "RF5"
#: Register of a finished sum until it is looked up: of even hidden layers, odd ones, outputs of even and of odd steps.
_OUTPUTS = 2
#: Words back that LOOP reaches.
_NEAR = 255
#: Most of a step by which words between the host and the processor farthest from it are later there.
_SKEW = 0.7


@dataclass(frozen=True)
class _Event:
    """Instructions that are due when so many phases of a step, a real number, are done."""

    due: float
    lines: tuple[str, ...]


class StreamText(ProgramText):
    """Text of one processor's program for a stream."""

    @property
    def last(self) -> int:
        """Number of the last layer."""
        return self.placement.layers[-1]

    def inputs_at(self, step: int) -> int:
        """Address of the inputs that a step reads."""
        return self.layout.values[0] + step % 2 * self.held(0)

    def values_at(self, step: int, layer: int = 1) -> int:
        """Address of the values of a hidden layer that a step reads."""
        return self.layout.values[layer] + step % 2 * self.layout.half

    # Sums that wait to be looked up. More than one of a layer wait in XM, and a register holds the one that is due.

    def _many(self, layer: int) -> bool:
        return self.owned(layer) > 1

    def _area(self, layer: int, step: int) -> int:
        return _OUTPUTS + step % 2 if layer == self.last else layer % 2

    def _address(self, layer: int, step: int) -> int:
        return self.layout.sums + self._area(layer, step) * self.layout.kept

    def _entry(self, layer: int, step: int, pointer: int) -> tuple[list[str], str]:
        """Bring a kept sum into its register, if it is not there; and make WA3 its table entry's address."""
        register = f"RF{self._area(layer, step)}"
        return [f"MOV XM[{pointer}]+ {register}"] * self._many(layer), f"MOV {register} WA3"

    # What stands between rows.

    def _skewed(self, share: float, place: int, places: int, words: int) -> float:
        """When a word of the host is due: everywhere the same share of a step, and later the farther it has come.

        A link holds two words. Of the `words` of a step that pass it, the next one is sent no sooner than the one
        before is due at the other end.
        """
        skew = min(_SKEW, (places - 1) / (places - 1 + words))
        return self.last * ((1 - skew) * share + skew * (places - 1 - place) / (places - 1))

    def _inputs(self) -> list[_Event]:
        held, rows = self.held(0), self.placement.rows
        line = "INX S XM[2]+" if self.row == 0 else "PASS S XM[2]+ N"
        words = held if self.last % 2 else held + self.held(self.last)
        return [_Event(self._skewed((item + 1) / held, self.row, rows, words), (line,)) for item in range(held)]

    def _outputs(self, step: int) -> list[_Event]:
        """Send the outputs finished in a step, then pass on those of the processors behind."""
        layer, held = self.last, self.held(self.last)
        if layer % 2:
            port, back, place, places, words = "W", "E", self.column, self.placement.columns, held
            behind = [(self.row, k) for k in range(place + 1, places)]
        else:
            port, back, place, places, words = "N", "S", self.row, self.placement.rows, held + self.held(0)
            behind = [(k, self.column) for k in range(place + 1, places)]
        lines = []
        for _ in range(self.owned(layer)):
            fetch, look = self._entry(layer, step, 2)
            lines.append((*fetch, look, f"OUT WM[3] {port}"))
        lines += [(f"FWD {back} {port}",)] * sum(len(self.placement.owned(layer, *at)) for at in behind)
        first = held - len(lines) + 1
        return [_Event(self._skewed(n / held, place, places, words), line) for n, line in enumerate(lines, first)]

    def _spread(self, layer: int, step: int) -> list[_Event]:
        """Spread finished values along the ring: in every round the own one leaves first and is stored last."""
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        ahead, behind = self.ports(layer)
        chunks = axis.chunks(self.held(layer))
        total, done, events = self.held(layer), 0, []
        for item in range(max(map(len, chunks))):
            own = item < len(chunks[position])
            fetch, look = self._entry(layer, step, 1)
            if own:
                events.append(_Event(layer + (done + 0.5) / total, (*fetch, look, f"OUT WM[3] {ahead}")))
            for distance in range(1, axis.length):
                if item < len(chunks[(position - distance) % axis.length]):
                    done += 1
                    last = distance == axis.length - 1
                    line = f"INX {behind} XM[0]+" if last else f"PASS {behind} XM[0]+ {ahead}"
                    events.append(_Event(layer + done / total, (line,)))
            if own:
                done += 1
                events.append(_Event(layer + done / total, (look, "MOV WM[3] XM[0]+")))
        return events

    # Phases and steps.

    def _rows(self, layer: int, step: int) -> list[_Event]:
        """Make the rows of products of a layer, pass sums on, and finish the own ones."""
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        ahead, behind = self.ports(layer)
        chunks = axis.chunks(self.held(layer))
        order = [
            distance
            for item in range(max(map(len, chunks)))
            for distance in range(1, axis.length + 1)
            if item < len(chunks[(position - distance) % axis.length])
        ]
        keep = "MOV A! XM[1]+" if self._many(layer) else f"MOV A! RF{self._area(layer, step)}"
        pointer = 0 if layer == 1 else 3
        events = []
        for number, distance in enumerate(order, 1):
            # The last row leaves the pointer behind the inputs.
            row = f"MADD WM[0]+ XM[{pointer}]{'+' if number == len(order) else '~'} A"
            if distance == axis.length:
                lines: tuple[str, ...] = (row, f"INS {behind}", "ADD WM[0]+ A", keep)
            else:
                lines = (row, f"OUT A! {ahead}" if distance == 1 else f"OUTS {behind} A! {ahead}")
            events.append(_Event(layer - 1 + number / len(order), lines))
        return events

    def step(self, number: int, samples: int, *, steady: bool) -> None:
        """Emit a step: layer l works on sample ``number - l + 1`` where there is one.

        In a steady step all pointers run on; in another one they are set for every phase.
        """
        at = self.layout
        if steady:
            back = ("XR2", "XR0") if number % 2 else ("XA0", "XA3")
            self.emit(f"MOV {_WEIGHTS} WA0", f"MOV {_INPUTS} {back[0]}")
            if at.half:
                self.emit(f"MOV {_VALUES} {back[1]}")
        else:
            self.point(xr2=self.inputs_at(number + 1))
        words = self._inputs() if number + 1 < samples else []
        if 0 <= number - self.last < samples:
            if self._many(self.last):
                self.point(xa2=self._address(self.last, number - 1))
            # Where the two share links, the order is the same everywhere: of two due together, inputs first.
            words = sorted([*words, *self._outputs(number - 1)], key=lambda event: event.due)
        for layer in self.placement.layers:
            made = 0 <= number - layer + 1 < samples
            spread = layer > 1 and 0 <= number - layer + 2 < samples
            if made and self._many(layer):
                self.point(xr1=self._address(layer, number))
            if spread and self._many(layer - 1):
                self.point(xa1=self._address(layer - 1, number))
            if not steady:
                self._point(layer, number, made=made, spread=spread)
            due = [event for event in words if layer - 1 < event.due <= layer or layer == self.last < event.due]
            if spread:
                due += self._spread(layer - 1, number)
            rows = self._rows(layer, number) if made else []
            # Rows first of what is due together.
            for event in sorted([*rows, *due], key=lambda event: event.due):
                self._emit_event(event, self.held(layer - 1))
            if steady and not rows and self.held(layer - 1):
                # No row has moved the pointer on.
                after = self.values_at(number, layer - 1) if layer > 1 else self.inputs_at(number)
                self.point(**{"xa3" if layer > 1 else "xa0": after + self.held(layer - 1)})

    def _point(self, layer: int, number: int, *, made: bool, spread: bool) -> None:
        if made:
            self.point(wa0=self.layout.weights[layer])
            if layer == 1:
                self.point(xa0=self.inputs_at(number))
            else:
                self.point(xa3=self.values_at(number, layer - 1))
        if spread:
            self.point(xr0=self.values_at(number + 1, layer - 1))

    def _emit_event(self, event: _Event, inputs: int) -> None:
        first, *rest = event.lines
        if first.startswith("MADD"):
            self.repeat(inputs, first)
        else:
            self.emit(first)
        self.emit(*rest)


def stream_program(text: StreamText, samples: int) -> None:
    """Write the program: inputs of the first sample, steps that fill, a loop of two, steps that drain.

    Parameters
    ----------
    text
        Of a processor with a layout for passes that overlap, on a torus whose rows and columns have two or more
        processors.
    samples
        Passes, at least 2.
    """
    layers, at = text.last, text.layout
    text.set("ICR", 1)
    text.emit(f"LDI #{at.weights[1]} {_WEIGHTS}", f"LDI #{at.values[0]} {_INPUTS}")
    if at.half:
        text.emit(f"LDI #{at.values[1]} {_VALUES}")
    text.point(xr2=text.inputs_at(0))
    text.repeat(text.held(0), "INX S XM[2]+" if text.row == 0 else "PASS S XM[2]+ N")
    # With all layers at work, inputs to take and outputs to send: steps `layers` to `samples - 2`.
    passes, after = max(0, samples - 1 - layers) // 2, samples + layers
    begin = end = after
    # A loop of one pass would save nothing.
    if passes > 1:
        begin, end = layers, layers + 2 * passes
    for number in range(begin):
        text.step(number, samples, steady=False)
    if passes > 1:
        text.emit(f"LDI #{passes} LC0")
        text.point(xa0=text.inputs_at(begin), xr2=text.inputs_at(begin + 1))
        if at.half:
            text.point(xa3=text.values_at(begin), xr0=text.values_at(begin + 1))
        text.known.pop("RC", None)
        before = text.words
        text.emit("next:")
        for number in (begin, begin + 1):
            text.step(number, samples, steady=True)
        if text.words - before <= _NEAR:
            text.emit("LOOP LC0 next")
        else:
            text.emit("LOOP LC0 again", "JMP drain", "again:", "JMP next", "drain:")
        for number in range(end, after):
            text.step(number, samples, steady=False)
    text.emit("HALT")
