# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""The issue stage: fetch, decode, repetition, addresses, branches, and waiting for operands (D3, D5)."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from golden.dnp.arithmetic import WORD
from golden.dnp.config import CoreConfig
from golden.dnp.isa import GENERAL, IOPR_CODE, TABLE_POINTER, Control, StopCode
from hw.dnp.address import AddressGenerator
from hw.dnp.arithmetic import Entry, Flight
from hw.dnp.decoder import Decoder
from hw.dnp.isa import ADDRESS, SIGNED_WORD, Decoded

__all__ = ["Issue"]

_WM_POINTERS = range(Control.WA0, Control.WR3 + 1)
_XM_POINTERS = range(Control.XA0, Control.XR3 + 1)
_BRANCH_BITS, _LOOP_BITS = 8, 9
#: Flights whose results are too late for the operand stage; the one in the add stage is done by then.
_LATE_FOR_OPERANDS = 2


class Issue(wiring.Component):
    """One instruction a clock, unless it waits, branches or has a second word.

    Parameters
    ----------
    config
        Memory sizes.
    """

    #: The stage may work in this clock.
    go: In(1)
    #: Program memory: address of the word wanted next, read if ``p_enable``; ``p_word`` stands until then.
    p_address: Out(ADDRESS)
    p_enable: Out(1)
    p_word: In(unsigned(WORD))
    #: Instructions in the stages that follow.
    flights: In(Flight).array(3)
    #: Registers, for branches and for what is moved into control registers.
    a: In(SIGNED_WORD)
    general: In(SIGNED_WORD).array(GENERAL)
    #: Addresses to be read for the instruction that enters the operand stage.
    wm_address: Out(ADDRESS)
    xm_address: Out(ADDRESS)
    #: What enters the operand stage.
    entry: Out(Entry)
    #: An instruction, or one more pass of it, is on its way.
    issued: Out(1)
    #: Control registers in the order of their codes, to be read back.
    control: Out(ADDRESS).array(len(Control))

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        """Decode, address, wait, act, go on."""
        m = Module()
        m.submodules.decoder = decoder = Decoder()
        decoded, word = Signal(Decoded), Signal(WORD)
        m.submodules.wm = wm = AddressGenerator(past_start=1)
        m.submodules.xm = xm = AddressGenerator(past_start=0)

        pc_fetch, pc_read, pc = Signal(ADDRESS), Signal(ADDRESS), Signal(ADDRESS)
        read, fetched = Signal(), Signal()
        second = Signal()
        repeating, remaining = Signal(), Signal(ADDRESS)
        stopping = Signal()
        icr, rc, iopr, table = (Signal(ADDRESS, name=name) for name in ("icr", "rc", "iopr", "tb"))
        counters = Array([Signal(ADDRESS, name=f"lc{i}") for i in range(2)])
        for memory, codes in ((wm, _WM_POINTERS), (xm, _XM_POINTERS)):
            for index, code in enumerate(codes):
                m.d.comb += self.control[code].eq(memory.pointers[index])
        for code, value in (
            (Control.ICR, icr),
            (Control.RC, rc),
            (Control.LC0, counters[0]),
            (Control.LC1, counters[1]),
            (Control.IOPR, iopr),
            (Control.TB, table),
        ):
            m.d.comb += self.control[code].eq(value)

        live, outside = Signal(), Signal()
        m.d.comb += [
            live.eq(self.go & fetched & ~stopping),
            decoder.word.eq(self.p_word),
        ]
        first_half = Signal()
        m.d.comb += first_half.eq(live & decoded.defined & decoded.two_words & ~second & ~outside)

        # Repetition.
        repeat, count, skip, last = Signal(), Signal(ADDRESS), Signal(), Signal()
        m.d.comb += [
            repeat.eq(decoded.repeat),
            count.eq(Mux(repeating, remaining, rc)),
            skip.eq(repeat & (count == 0)),
            last.eq(~repeat | (count <= 1)),
        ]

        # Addresses.
        for memory, prefix, stride in ((wm, "wm", icr), (xm, "xm", 1)):
            m.d.comb += [
                memory.source.eq(getattr(decoded, f"{prefix}_source_pointer")),
                memory.source_mode.eq(getattr(decoded, f"{prefix}_source_mode")),
                memory.result.eq(getattr(decoded, f"{prefix}_result_pointer")),
                memory.result_step.eq(getattr(decoded, f"{prefix}_result_step")),
                memory.stride.eq(stride),
                memory.first.eq(~repeating),
                memory.last.eq(last),
            ]
        m.d.comb += [self.wm_address.eq(wm.source_address), self.xm_address.eq(xm.source_address)]

        code, stops, waits = Signal(StopCode), Signal(), Signal()
        self._stop_code(m, code, decoded, wm, xm, skip=skip | second, outside=outside)
        m.d.comb += [
            stops.eq((code != StopCode.NONE) | (decoded.halt & decoded.defined)),
            waits.eq(self._waits(m, decoded, wm, xm) & decoded.defined & ~outside & ~second & ~skip),
        ]

        # What happens in this clock.
        ready, act, does, stop = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            ready.eq(live & ~waits & ~first_half),
            stop.eq(ready & stops),
            act.eq(ready & ~stops),
            does.eq(act & ~skip),
            self.issued.eq(does),
        ]
        with m.If(stop):
            m.d.sync += stopping.eq(1)
        for memory, prefix in ((wm, "wm"), (xm, "xm")):
            m.d.comb += [
                memory.use_source.eq(does & getattr(decoded, f"{prefix}_source")),
                memory.use_result.eq(does & getattr(decoded.slot, f"write_{prefix}")),
            ]
        with m.If(does & repeat):
            m.d.sync += remaining.eq(count - 1)
        with m.If(act):
            m.d.sync += repeating.eq(repeat & ~last)

        # Control registers; WA3 turns what it is given into the address of a table entry (D8).
        needed, loaded = Signal(WORD), Signal(ADDRESS)
        entry_index = Signal(ADDRESS)
        m.d.comb += needed.eq(
            Mux(decoded.needed_register[-1], self.a, Array(self.general)[decoded.needed_register[:-1]])
        )
        m.d.comb += loaded.eq(Mux(second, word, Mux(decoded.byte, word[:8], needed)))
        m.d.comb += entry_index.eq((loaded ^ (1 << (WORD - 1)))[WORD - self.config.table_bits :])
        writes = Signal()
        m.d.comb += [writes.eq(does & decoded.write_control)]
        for memory, codes in ((wm, _WM_POINTERS), (xm, _XM_POINTERS)):
            m.d.comb += [
                memory.load.eq(writes & (decoded.control >= codes.start) & (decoded.control < codes.stop)),
                memory.load_pointer.eq(decoded.control),
                memory.load_value.eq(loaded),
            ]
        with m.If(decoded.control == TABLE_POINTER):
            m.d.comb += wm.load_value.eq(table + entry_index)
        with m.If(writes):
            with m.Switch(decoded.control):
                for target, register in (
                    (Control.ICR, icr),
                    (Control.RC, rc),
                    (Control.LC0, counters[0]),
                    (Control.LC1, counters[1]),
                    (Control.TB, table),
                ):
                    with m.Case(int(target)):
                        m.d.sync += register.eq(loaded)
                with m.Case(int(Control.IOPR)):
                    m.d.sync += iopr.eq(loaded[:2])

        self._entry(m, decoded, wm, xm, word, iopr, second=second, does=does, stop=stop, code=code, pc=pc)
        taken, target = self._branch(m, decoded, word, pc, act, second, counters)

        # On to the next word.
        advance = Signal()
        m.d.comb += [
            advance.eq((self.go & ~fetched) | first_half | (act & last)),
            self.p_address.eq(pc_fetch),
            self.p_enable.eq(advance),
        ]
        with m.If(live):
            m.d.sync += second.eq(first_half)
        with m.If(advance):
            m.d.sync += [
                pc_fetch.eq(pc_fetch + 1),
                pc_read.eq(pc_fetch),
                read.eq(~taken),
                pc.eq(pc_read),
                fetched.eq(read & ~taken),
                outside.eq(pc_read >= self.config.p_depth),
                word.eq(self.p_word),
            ]
            # The second word of an instruction is not decoded; what the first one meant still counts.
            with m.If(~first_half):
                m.d.sync += decoded.eq(decoder.decoded)
        with m.If(taken):
            m.d.sync += pc_fetch.eq(target)
        return m

    def _stop_code(self, m: Module, code: Signal, decoded: Any, wm: Any, xm: Any, *, skip: Any, outside: Any) -> None:
        """Undefined words, and addresses past the end of a memory, stop the processor; the first cause counts."""
        config = self.config
        wm_bad = (decoded.wm_source & (wm.source_address >= config.wm_depth)) | (
            decoded.slot.write_wm & (wm.result_address >= config.wm_depth)
        )
        xm_bad = (decoded.xm_source & (xm.source_address >= config.xm_depth)) | (
            decoded.slot.write_xm & (xm.result_address >= config.xm_depth)
        )
        with m.If(outside):
            m.d.comb += code.eq(StopCode.PC_RANGE)
        with m.Elif(~decoded.defined):
            m.d.comb += code.eq(StopCode.OPCODE)
        with m.Elif(wm_bad & ~skip):
            m.d.comb += code.eq(StopCode.WM_RANGE)
        with m.Elif(xm_bad & ~skip):
            m.d.comb += code.eq(StopCode.XM_RANGE)

    def _waits(self, m: Module, decoded: Any, wm: Any, xm: Any) -> Any:
        """Return whether something that is needed is still on its way."""
        waits: Any = 0
        for stage, flight in enumerate(self.flights):
            needed = decoded.needed_register
            pending = Mux(
                needed[-1], flight.writes_a, flight.writes_general & (flight.target == needed[: len(flight.target)])
            )
            waits |= decoded.needs_register & pending
            if stage < _LATE_FOR_OPERANDS:
                waits |= (decoded.needs_factor & flight.writes_general & (flight.target == decoded.slot.factor)) | (
                    decoded.needs_a & flight.writes_a
                )
            waits |= decoded.wm_source & flight.writes_wm & (flight.wm_address == wm.source_address)
            waits |= decoded.xm_source & flight.writes_xm & (flight.xm_address == xm.source_address)
        return waits

    def _entry(
        self,
        m: Module,
        decoded: Any,
        wm: Any,
        xm: Any,
        word: Any,
        iopr: Any,
        *,
        second: Any,
        does: Any,
        stop: Any,
        code: Any,
        pc: Any,
    ) -> None:
        entry = self.entry
        constant = Signal(signed(WORD))
        with m.If(second):
            m.d.comb += constant.eq(word)
        with m.Elif(decoded.read_control):
            m.d.comb += constant.eq(Array(self.control)[decoded.control])
        with m.Else():
            m.d.comb += constant.eq(word[:4])
        m.d.comb += [
            entry.slot.eq(decoded.slot),
            entry.slot.receive_port.eq(Mux(decoded.receive_code == IOPR_CODE, iopr, decoded.slot.receive_port)),
            entry.slot.send_port.eq(Mux(decoded.send_code == IOPR_CODE, iopr, decoded.slot.send_port)),
            entry.valid.eq((does & ~decoded.issue_only) | stop),
            entry.stop.eq(stop),
            entry.code.eq(code),
            entry.pc.eq(pc),
            entry.constant.eq(constant),
            entry.wm_address.eq(wm.result_address),
            entry.xm_address.eq(xm.result_address),
        ]

    def _branch(
        self, m: Module, decoded: Any, word: Any, pc: Any, act: Any, second: Any, counters: Any
    ) -> tuple[Signal, Signal]:
        taken, target, holds = Signal(), Signal(ADDRESS), Signal()
        zero, wanted = self.a == 0, word[_BRANCH_BITS : _BRANCH_BITS + 2]
        m.d.comb += holds.eq(Array([self.a < 0, self.a >= 0, zero, ~zero])[wanted])
        counter = word[_LOOP_BITS]
        left = Signal(ADDRESS)
        m.d.comb += left.eq(counters[counter] - 1)
        with m.If(act & decoded.loop):
            m.d.sync += counters[counter].eq(left)
        with m.If(decoded.jump):
            m.d.comb += [taken.eq(act & second), target.eq(word)]
        with m.Elif(decoded.loop):
            m.d.comb += [taken.eq(act & (left != 0)), target.eq(pc + word[:_LOOP_BITS].as_signed())]
        with m.Else():
            m.d.comb += [taken.eq(act & decoded.branch & holds), target.eq(pc + word[:_BRANCH_BITS].as_signed())]
        return taken, target
