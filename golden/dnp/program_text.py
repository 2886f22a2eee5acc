"""Text of one processor's program of a layered network, phase by phase (D8, D9)."""

from collections.abc import Sequence
from itertools import groupby

from golden.dnp.layout import Layout
from golden.dnp.network import ERROR_SHIFT, Learning
from golden.dnp.placement import Placement

__all__ = ["ProgramText"]

#: Sums looked up together, so that no instruction waits for the one before; one general register each.
_BATCH = 6
_BYTE = 255


class ProgramText:
    """Text of one processor's program, phase by phase; remembers what RC and ICR hold.

    Parameters
    ----------
    placement, layout
        What the processor holds, and where.
    row, column
        Its place in the logical array.
    """

    def __init__(self, placement: Placement, layout: Layout, row: int, column: int) -> None:
        self.placement, self.layout, self.row, self.column = placement, layout, row, column
        self.lines: list[str] = []
        self.known: dict[str, int] = {}

    @property
    def words(self) -> int:
        """Words of program memory."""
        return sum(2 if line.split()[0] in ("LDI", "JMP") else 1 for line in self.lines if not line.endswith(":"))

    def held(self, layer: int) -> int:
        """Count the neurons of a layer that it holds."""
        return len(self.placement.held(layer, self.row, self.column))

    def owned(self, layer: int) -> int:
        """Count the sums of a layer that it finishes."""
        return len(self.placement.owned(layer, self.row, self.column))

    def emit(self, *lines: str) -> None:
        """Append lines."""
        self.lines += lines

    def set(self, register: str, value: int) -> None:
        """Load RC or ICR, unless it holds the value."""
        if self.known.get(register) != value:
            self.emit(f"SET #{value} {register}" if value <= _BYTE else f"LDI #{value} {register}")
            self.known[register] = value

    def point(self, **pointers: int) -> None:
        """Load address registers, named in small letters."""
        for register, address in pointers.items():
            self.emit(f"LDI #{address} {register.upper()}")

    def repeat(self, count: int, instruction: str) -> None:
        """Emit an instruction that is carried out `count` times."""
        if count == 1:
            self.emit(instruction)
        elif count > 1:
            self.set("RC", count)
            self.emit(f"REP {instruction}")

    def runs(self, instructions: Sequence[str]) -> None:
        """Emit a sequence, equal neighbours as a repetition."""
        for instruction, group in groupby(instructions):
            self.repeat(len(list(group)), instruction)

    # Communication along the axis of a layer.

    def ports(self, layer: int) -> tuple[str, str]:
        """Port that sums leave by, and the one they come from."""
        return ("E", "W") if layer % 2 else ("S", "N")

    def reduce(self, layer: int, size: int) -> None:
        """Finish the owned sums of a block whose partial sums lie at ``sums``, owned ones first."""
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        if axis.length == 1:
            return
        ahead, behind = self.ports(layer)
        chunks = axis.chunks(size)
        sequence = []
        for item in range(max(map(len, chunks))):
            for distance in range(1, axis.length):
                if item < len(chunks[(position - distance) % axis.length]):
                    sequence.append(f"OUT XM[0]+ {ahead}" if distance == 1 else f"OUTS {behind} XM[0]+ {ahead}")
            if item < len(chunks[position]):
                sequence.append(f"INSX {behind} XM[1]+ XM[1]+")
        self.point(xa0=self.layout.sums + len(chunks[position]))
        if chunks[position]:
            self.point(xa1=self.layout.sums, xr1=self.layout.sums)
        self.runs(sequence)

    def gather(self, layer: int, base: int) -> None:
        """Spread the owned words at `base` along the axis; the others follow them, from where XR2 points."""
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        if axis.length == 1:
            return
        ahead, behind = self.ports(layer) if axis.ring else reversed(self.ports(layer))
        chunks = axis.chunks(self.held(layer))
        first = 0 if axis.ring else axis.length - 1
        farthest = (position + 1) % axis.length if axis.ring else first
        sequence = []
        for item in range(max(map(len, chunks))):
            if item < len(chunks[position]):
                sequence.append(f"OUT XM[2]+ {ahead}")
            for distance in range(1, axis.length):
                source = (position - distance) % axis.length
                if item < len(chunks[source]):
                    last = source == farthest if axis.ring else position == 0
                    sequence.append(f"INX {behind} XM[2]+" if last else f"PASS {behind} XM[2]+ {ahead}")
        if chunks[position]:
            self.point(xa2=base)
        self.runs(sequence)

    # Phases of a pass.

    def forward(self, layer: int) -> None:
        """Weighted sums, their reduction, bias and table (eq. 1)."""
        at, rows = self.layout, self.held(layer)
        self.set("ICR", 1)
        self.point(wa0=at.weights[layer], xa0=at.values[layer - 1], xr0=at.sums)
        self.set("RC", self.held(layer - 1))
        self.emit(*["REP MADD WM[0]+ XM[0]~ A", "MOV A! XM[0]+"] * rows)
        self.reduce(layer, rows)
        own = self.owned(layer)
        if own:
            self.point(xa1=at.sums, wa2=at.biases[layer], xr2=at.values[layer])
        else:
            self.point(xr2=at.values[layer])
        for start in range(0, own, _BATCH):
            batch = range(min(_BATCH, own - start))
            for register in batch:
                self.emit("MOV XM[1]+ A", "ADD WM[2]+ A", f"MOV A RF{register}")
            for register in batch:
                self.emit(f"MOV RF{register} WA3", "MOV WM[3] XM[2]+")
        self.emit("XOR A A")

    def forward_in_rounds(self, layer: int, *, onward: bool) -> None:
        """Carry out eq. 1 on a ring: sums pass as they are made, then finished values go round as they are looked up.

        WA0, XA0 and XR2 run on from where the layer before left them; A is 0 before and after.
        """
        axis, position = self.placement.axis(layer), self.placement.position(layer, self.row, self.column)
        ahead, behind = self.ports(layer)
        inputs, chunks = self.held(layer - 1), axis.chunks(self.held(layer))
        share = len(chunks[position])
        # Finished sums wait in registers, or, where they are too many, in XM.
        stored = onward and axis.length > 1 and share > _BATCH
        if stored:
            self.point(xr1=self.layout.sums, xa1=self.layout.sums)
        order = [
            distance
            for item in range(max(map(len, chunks)))
            for distance in range(1, axis.length + 1)
            if item < len(chunks[(position - distance) % axis.length])
        ]
        finished = 0
        for number, distance in enumerate(order, 1):
            # The last row leaves the pointer at the next layer's inputs.
            self.repeat(inputs, f"MADD WM[0]+ XM[0]{'+' if number == len(order) else '~'} A")
            if distance < axis.length:
                self.emit(f"OUT A! {ahead}" if distance == 1 else f"OUTS {behind} A! {ahead}")
                continue
            if axis.length > 1:
                self.emit(f"INS {behind}")
            self.emit("ADD WM[0]+ A", "MOV A! XM[1]+" if stored else f"MOV A! RF{finished % _BATCH}")
            finished += 1
            if axis.length == 1 or not onward:
                self._look_up(finished - _BATCH)
        if not inputs or not order:
            self.point(xa0=self.layout.values[layer])
        if axis.length == 1 or not onward:
            for item in range(max(0, finished - _BATCH + 1), finished):
                self._look_up(item)
            return
        self._send_round(axis.length, position, chunks, ports=(ahead, behind), stored=stored)

    def _look_up(self, item: int) -> None:
        if item >= 0:
            self.emit(f"MOV RF{item % _BATCH} WA3", "MOV WM[3] XM[2]+")

    def _send_round(
        self, length: int, position: int, chunks: list[list[int]], *, ports: tuple[str, str], stored: bool
    ) -> None:
        """Look up finished sums and spread them along a ring, in rounds: the others' values first, then the own one."""
        ahead, behind = ports
        share = len(chunks[position])
        for item in range(max(map(len, chunks))):
            others = [d for d in range(1, length) if item < len(chunks[(position - d) % length])]
            passed = sum(distance < length - 1 for distance in others)
            if passed > 1:
                self.set("RC", passed)
            if item < share:
                if stored and item % _BATCH == 0:
                    self.emit(*(f"MOV XM[1]+ RF{i}" for i in range(min(_BATCH, share - item))))
                self.emit(f"MOV RF{item % _BATCH} WA3", f"OUT WM[3] {ahead}")
            self.repeat(passed, f"PASS {behind} XM[2]+ {ahead}")
            if passed < len(others):
                self.emit(f"INX {behind} XM[2]+")
            if item < share:
                self.emit("MOV WM[3] XM[2]+")

    def output_errors(self, layer: int) -> None:
        """Carry out eq. 2 for the owned outputs, as in Fig. 4, times 2² (D8)."""
        at = self.layout
        if self.owned(layer):
            self.point(xa1=at.values[layer], xa2=at.targets, xr2=at.errors[layer])
            self.emit(
                *[
                    "MOV XM[1]+ RF0",
                    "MOV RF0 A",
                    "NOT A",
                    "MUL RF0 A",
                    "MOV A RF1",
                    "MOV XM[2]+ A",
                    "SUB RF0 A",
                    "MUL RF1 A",
                    f"SHL #{ERROR_SHIFT} A",
                    "MOV A! XM[2]+",
                ]
                * self.owned(layer)
            )
        else:
            self.point(xr2=at.errors[layer])
        self.gather(layer, at.errors[layer])

    def hidden_errors(self, layer: int) -> None:
        """Carry out eq. 3: the errors of the layer above, back through its weights, column by column."""
        at, inputs = self.layout, self.held(layer)
        self.set("ICR", inputs)
        self.point(wa1=at.weights[layer + 1], xa0=at.errors[layer + 1], xr0=at.sums)
        self.set("RC", self.held(layer + 1))
        self.emit(*["REP MADD WM[1]~ XM[0]~ A", "MOV A! XM[0]+"] * inputs)
        self.reduce(layer, inputs)
        if self.owned(layer):
            self.point(xa1=at.values[layer], xa2=at.sums, xr2=at.errors[layer])
            self.emit(
                *[
                    "MOV XM[1]+ RF0",
                    "MOV XM[2]+ A",
                    "MUL RF0 A",
                    "MOV A RF1",
                    "MOV RF0 A",
                    "NOT A",
                    "MUL RF1 A",
                    "MOV A! XM[2]+",
                ]
                * self.owned(layer)
            )
        else:
            self.point(xr2=at.errors[layer])
        self.gather(layer, at.errors[layer])

    def update(self, layer: int, learning: Learning, *, output: bool) -> None:
        """Carry out eq. 4: each row of weights in one repetition, its factor made while the one before is under way."""
        at, rows, inputs = self.layout, self.held(layer), self.held(layer - 1)
        self.set("ICR", 1)
        self.emit(f"LDI #{learning.factor(output=output)} RF2")
        if learning.momentum_factor is not None and rows * inputs:
            self.point(wa0=at.weights[layer], wr0=at.weights[layer])
            self.emit(f"LDI #{learning.momentum_factor} RF4")
            self.repeat(rows * inputs, "SCL RF4 WM[0]+")
        self.point(wa0=at.weights[layer], wr0=at.weights[layer], xa0=at.values[layer - 1], xa1=at.errors[layer])
        self.set("RC", inputs)
        factors = [["MULR RF2 XM[1]+ A", f"MOV A RF{1 + 2 * (row % 2)}"] for row in range(rows)]
        self.emit(*(factors[0] if rows else []))
        for row in range(rows):
            self.emit(*(factors[row + 1] if row + 1 < rows else []))
            self.emit(f"REP UPD RF{1 + 2 * (row % 2)} XM[0]~ WM[0]+")
        own = self.owned(layer)
        if own:
            self.point(xa1=at.errors[layer], wa2=at.biases[layer], wr1=at.biases[layer])
            self.emit(*["MULR RF2 XM[1]+ A", "ADD WM[2]+ A", "MOV A WM[1]+"] * own)
        self.emit("XOR A A")

    # The host's words.

    def receive(self, base: int, own: int, *, port: str, onward: str | None, rest: int, shared: bool) -> None:
        """Take `own` words from a port: all that come (`shared`, passed on too), or the first, passing on `rest`."""
        self.point(xr2=base)
        if shared:
            self.repeat(own, f"PASS {port} XM[2]+ {onward}" if onward else f"INX {port} XM[2]+")
            return
        self.repeat(own, f"INX {port} XM[2]+")
        if onward:
            self.repeat(rest, f"FWD {port} {onward}")

    def send(self, base: int, own: int, *, port: str, behind: str, rest: int) -> None:
        """Send the owned words to the host, then pass on those of the processors behind."""
        if own:
            self.point(xa2=base)
        self.repeat(own, f"OUT XM[2]+ {port}")
        self.repeat(rest, f"FWD {behind} {port}")
