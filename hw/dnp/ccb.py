# mypy: disable-error-code="valid-type,attr-defined,index"
"""Chip control block: loads and reads back the off-line processors of a chip over the G-bus, switches them on (D7)."""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD
from contracts.dnp.gbus import HEADER, Operation
from hw.dnp.core import Access
from hw.dnp.isa import ADDRESS

__all__ = ["G_BUS", "IDENTITY_BITS", "ChipControl"]

#: A word on the G-bus.
G_BUS = stream.Signature(unsigned(WORD))
#: Bits of the number of a chip.
IDENTITY_BITS = next(field.bits for field in HEADER.fields if field.name == "chip")


class ChipControl(wiring.Component):
    """Receives frames (`contracts.dnp.gbus`) and executes those for its chip.

    Parameters
    ----------
    cores
        Processors of the chip, 1..4.

    Attributes
    ----------
    i, o
        G-bus from and to the host.
    identity
        Number of the chip.
    access
        Access port of each processor.
    online, start
        Common to all processors. ``start`` is high after a reset too.

    Raises
    ------
    ValueError
        If `cores` is out of range.
    """

    i: Any
    o: Any
    identity: Signal
    access: Any
    online: Signal
    start: Signal

    def __init__(self, cores: int) -> None:
        limit = 1 << HEADER.fields[0].bits
        if not 1 <= cores <= limit:
            raise ValueError(f"cores must be in 1..{limit}, not {cores!r}")
        self.cores = cores
        super().__init__(
            {
                "i": In(G_BUS),
                "o": Out(G_BUS),
                "identity": In(IDENTITY_BITS),
                "access": Out(Access()).array(cores),
                "online": Out(1),
                "start": Out(1, init=1),
            }
        )

    def _field(self, word: Any, name: str) -> Any:
        low = HEADER.offsets[name]
        bits = next(field.bits for field in HEADER.fields if field.name == name)
        return word[low : low + bits]

    def elaborate(self, platform: Any) -> Module:
        """Read frames word by word; a read takes four clocks a word."""
        m = Module()
        header = Signal(WORD)
        address, left = Signal(ADDRESS), Signal(ADDRESS)
        word = self.i.payload
        taken, mine, writing = Signal(), Signal(), Signal()
        data = Signal(WORD)
        m.d.comb += [
            taken.eq(self.i.valid & self.i.ready),
            mine.eq(self._field(header, "all") | (self._field(header, "chip") == self.identity)),
            self.o.payload.eq(data),
        ]
        read_data = self._access(m, header, address, mine, writing)
        reading = self._field(header, "operation") == int(Operation.READ)
        starting = self._delayed_start(m)
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(taken):
                    m.d.sync += header.eq(word)
                    self._operation(m, starting)
            with m.State("ADDRESS"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(taken):
                    m.d.sync += address.eq(word)
                    m.next = "COUNT"
            with m.State("COUNT"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(taken):
                    m.d.sync += left.eq(word)
                    with m.If((word == 0) | (reading & ~mine)):
                        m.next = "HEADER"
                    with m.Elif(reading):
                        m.next = "LOOK"
                    with m.Else():
                        m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(taken):
                    m.d.comb += writing.eq(1)
                    m.d.sync += [address.eq(address + 1), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "HEADER"
            with m.State("LOOK"):
                m.next = "WAIT"
            with m.State("WAIT"):
                m.next = "KEEP"
            with m.State("KEEP"):
                m.d.sync += data.eq(read_data)
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [address.eq(address + 1), left.eq(left - 1)]
                    m.next = "LOOK"
                    with m.If(left == 1):
                        m.next = "HEADER"
        return m

    def _access(self, m: Module, header: Signal, address: Signal, mine: Signal, writing: Signal) -> Signal:
        """Access the processors that the frame addresses; return the word of the last of them."""
        everyone = self._field(header, "all")
        read_data = Signal(WORD)
        for index, access in enumerate(self.access):
            chosen = Signal(name=f"chosen_{index}")
            m.d.comb += [
                chosen.eq(mine & (everyone | (self._field(header, "core") == index))),
                access.space.eq(self._field(header, "space")),
                access.address.eq(address),
                access.write_data.eq(self.i.payload),
                access.write.eq(writing & chosen & ~self.online),
            ]
            with m.If(chosen):
                m.d.comb += read_data.eq(access.read_data)
        return read_data

    def _delayed_start(self, m: Module) -> Signal:
        """Go on-line a clock after `start`; return the register that does so. After a reset nothing starts."""
        starting = Signal()
        m.d.sync += [self.start.eq(0), starting.eq(0)]
        with m.If(starting):
            m.d.sync += self.online.eq(1)
        return starting

    def _operation(self, m: Module, starting: Signal) -> None:
        """Carry out ON or OFF, or continue with the frame's address."""
        word = self.i.payload
        addressed = self._field(word, "all") | (self._field(word, "chip") == self.identity)
        with m.Switch(self._field(word, "operation")):
            with m.Case(int(Operation.WRITE), int(Operation.READ)):
                m.next = "ADDRESS"
            with m.Case(int(Operation.ON)):
                starts = addressed & ~self.online
                m.d.sync += [self.start.eq(starts), starting.eq(starts)]
            with m.Case(int(Operation.OFF)):
                with m.If(addressed):
                    m.d.sync += [self.online.eq(0), self.start.eq(0), starting.eq(0)]
