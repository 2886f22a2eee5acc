# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""The issue stage: fetch, decode, repetition, addresses, branches, and waiting for operands (D3, D5)."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD, ProcessorConfig
from contracts.dnp.isa import GENERAL, IOPR_CODE, PORTS, Control, StopCode
from hw.dnp.address import STAGES, AddressGenerator
from hw.dnp.arithmetic import entry_layout, flight_layout
from hw.dnp.decoder import Decoder
from hw.dnp.isa import ADDRESS, SIGNED_WORD, Decoded

__all__ = ["InstructionIssue"]

_WM_POINTERS = range(Control.WA0, Control.WR3 + 1)
_XM_POINTERS = range(Control.XA0, Control.XR3 + 1)
_BRANCH_BITS, _LOOP_BITS = 8, 9
#: Flights whose results are too late for the operand stage; the one in the add stage is done by then.
_LATE_FOR_OPERANDS = 2


class InstructionIssue(wiring.Component):
    """One instruction a clock, unless it waits, branches or has a second word.

    Parameters
    ----------
    config
        Memory sizes.

    Attributes
    ----------
    go
        The stage may work in this clock.
    p_address, p_enable, p_word
        Program memory: address of the word wanted next, read if ``p_enable``; ``p_word`` stands until then. In the
        first clock it is the word at address 0.
    flights
        Instructions in the stages that follow.
    a, general
        Registers, for branches and for what is moved into control registers.
    wm_address, xm_address
        Addresses to be read for the instruction that enters the operand stage.
    entry
        What enters the operand stage if ``go``.
    issued
        An instruction, or one more pass of it, is on its way.
    control
        Control registers in the order of their codes, to be read back.
    registers
        After elaboration: its registers by name, for proofs.
    """

    go: Signal
    p_address: Signal
    p_enable: Signal
    p_word: Signal
    flights: Any
    a: Signal
    general: Any
    wm_address: Signal
    xm_address: Signal
    entry: Any
    issued: Signal
    control: Any

    def __init__(self, config: ProcessorConfig) -> None:
        self.config = config
        self.registers: dict[str, Signal] = {}
        super().__init__(
            {
                "go": In(1),
                "p_address": Out(ADDRESS),
                "p_enable": Out(1),
                "p_word": In(unsigned(WORD)),
                "flights": In(flight_layout(config)).array(STAGES),
                "a": In(SIGNED_WORD),
                "general": In(SIGNED_WORD).array(GENERAL),
                "wm_address": Out(ADDRESS),
                "xm_address": Out(ADDRESS),
                "entry": Out(entry_layout(config)),
                "issued": Out(1),
                "control": Out(ADDRESS).array(len(Control)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Decode, address, wait, act, go on."""
        m = Module()
        m.submodules.decoder = decoder = Decoder()
        decoded, word = Signal(Decoded), Signal(WORD)
        m.submodules.wm = wm = AddressGenerator(self.config.wm_depth, past_start=1)
        m.submodules.xm = xm = AddressGenerator(self.config.xm_depth, past_start=0, step=1)

        # Addresses of the words at the memory's output, in front of the decoder, and behind it.
        pc_fetch, pc_read, pc = Signal(ADDRESS), Signal(ADDRESS), Signal(ADDRESS)
        raw = Signal(WORD)
        read, fetched = Signal(), Signal()
        second = Signal()
        repeating, remaining = Signal(), Signal(ADDRESS)
        stopping = Signal()
        icr, rc, table = (Signal(ADDRESS, name=name) for name in ("icr", "rc", "tb"))
        iopr = Signal(range(len(PORTS)))
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

        live, outside, defined = Signal(), Signal(), Signal()
        m.d.comb += [
            live.eq(fetched & ~stopping),
            defined.eq(decoded.defined.any()),
            decoder.word.eq(raw),
        ]
        first_half = Signal()
        m.d.comb += first_half.eq(live & defined & decoded.two_words & ~second & ~outside)

        # Repetition.
        repeat, count, skip, last = Signal(), Signal(ADDRESS), Signal(), Signal()
        # Known when RC is written: it is 0, it is 0 or 1.
        ending, rc_none, rc_short = Signal(), Signal(init=1), Signal(init=1)
        m.d.comb += [
            repeat.eq(decoded.repeat),
            count.eq(Mux(repeating, remaining, rc)),
            skip.eq(repeat & ~repeating & rc_none),
            last.eq(~repeat | Mux(repeating, ending, rc_short)),
        ]

        # Addresses.
        m.d.comb += wm.stride.eq(icr)
        for memory, prefix in ((wm, "wm"), (xm, "xm")):
            m.d.comb += [
                memory.reads.eq(getattr(decoded, f"{prefix}_source")),
                memory.source.eq(getattr(decoded, f"{prefix}_source_pointer")),
                memory.source_mode.eq(getattr(decoded, f"{prefix}_source_mode")),
                memory.stores.eq(getattr(decoded.slot, f"write_{prefix}")),
                memory.result.eq(getattr(decoded, f"{prefix}_result_pointer")),
                memory.result_step.eq(getattr(decoded, f"{prefix}_result_step")),
                memory.first.eq(~repeating),
                memory.last.eq(last),
            ]
        m.d.comb += [self.wm_address.eq(wm.source_address), self.xm_address.eq(xm.source_address)]
        for flight, to_wm, to_xm in zip(self.flights, wm.writes, xm.writes, strict=True):
            m.d.comb += [
                to_wm.valid.eq(flight.writes_wm),
                to_wm.address.eq(flight.wm_address),
                to_xm.valid.eq(flight.writes_xm),
                to_xm.address.eq(flight.xm_address),
            ]

        # What happens in this clock, if the stage may work; whether it may is known late. So is what hangs on
        # addresses, which does not matter to instructions without memory operands: those that branch or load control
        # registers.
        code, considered = Signal(StopCode), Signal()
        free, simple, ahead, pending, bad, hold = (
            Signal(name=n) for n in ("free", "simple", "ahead", "pending", "bad", "hold")
        )
        act, does, stop, waits = Signal(), Signal(), Signal(), Signal()
        wm_bad, xm_bad = (
            (memory.reads & memory.source_outside) | (memory.stores & memory.result_outside) for memory in (wm, xm)
        )
        m.d.comb += [
            considered.eq(defined & ~outside & ~second & ~skip),
            free.eq(live & ~first_half & ~(considered & self._register_pending(decoded))),
            simple.eq(free & defined & ~outside & ~decoded.halt),
            pending.eq(wm.source_pending | xm.source_pending),
            bad.eq(wm_bad | xm_bad),
            hold.eq(considered & (pending | bad)),
            act.eq(simple & ~hold),
            # Past the end nothing is pending, but a stop still waits for the other memory.
            waits.eq((wm.source_pending & ~wm.source_outside) | (xm.source_pending & ~xm.source_outside)),
            stop.eq(free & ~(considered & waits) & (outside | ~defined | decoded.halt | (considered & bad))),
            ahead.eq(simple & ~skip),
            does.eq(ahead & ~hold),
            self.issued.eq(self.go & does),
        ]
        # The first cause counts.
        with m.If(outside):
            m.d.comb += code.eq(StopCode.PC_RANGE)
        with m.Elif(~defined):
            m.d.comb += code.eq(StopCode.OPCODE)
        with m.Elif(considered & bad):
            m.d.comb += code.eq(Mux(wm_bad, StopCode.WM_RANGE, StopCode.XM_RANGE))
        with m.If(self.go & stop):
            m.d.sync += stopping.eq(1)
        # One more pass uses the same pointers. Past the end the processor stops, and where the stage goes is all one.
        passes, moves = Signal(), Signal()
        m.d.comb += [
            passes.eq(fetched & ~last),
            moves.eq(~fetched | first_half | (simple & ~(considered & pending))),
        ]
        for memory, prefix in ((wm, "wm"), (xm, "xm")):
            m.d.comb += [
                memory.go.eq(self.go),
                memory.ahead.eq(ahead),
                memory.hold.eq(hold),
                memory.moves.eq(moves),
                memory.present.eq(fetched & ~skip),
            ]
            for kind in ("source", "result"):
                name = f"{prefix}_{kind}_pointer"
                used, wanted = getattr(decoded, name), getattr(decoder.decoded, name)
                m.d.comb += getattr(memory, f"next_{kind}").eq(Mux(passes, used, wanted))
        with m.If(self.go & does & repeat):
            m.d.sync += [remaining.eq(count - 1), ending.eq(~count[2:].any() & ~count[:2].all())]
        with m.If(self.go & act):
            m.d.sync += repeating.eq(repeat & ~last)

        # Control registers; WA3 turns what it is given into the address of a table entry (D8).
        needed, moved, loaded = Signal(WORD), Signal(ADDRESS), Signal(ADDRESS)
        entry_index = Signal(ADDRESS)
        m.d.comb += needed.eq(
            Mux(decoded.needed_register[-1], self.a, Array(self.general)[decoded.needed_register[:-1]])
        )
        # No pointer is loaded with an instruction's own byte.
        m.d.comb += [moved.eq(Mux(second, word, needed)), loaded.eq(Mux(decoded.byte, word[:8], moved))]
        m.d.comb += entry_index.eq((moved ^ (1 << (WORD - 1)))[WORD - self.config.table_bits :])
        writes = Signal()
        m.d.comb += writes.eq(simple & decoded.write_control)
        for memory, codes in ((wm, _WM_POINTERS), (xm, _XM_POINTERS)):
            m.d.comb += [
                memory.load.eq(writes & memory.loads_pointer),
                memory.loads_pointer.eq((decoded.control >= codes.start) & (decoded.control < codes.stop)),
                memory.load_pointer.eq(decoded.control),
                memory.load_value.eq(moved),
                memory.load_last.eq(moved if memory is xm else table + entry_index),
                memory.loads.eq(decoded.write_control),
            ]
        with m.If(self.go & writes):
            with m.Switch(decoded.control):
                for target, register in (
                    (Control.ICR, icr),
                    (Control.RC, rc),
                    (Control.TB, table),
                ):
                    with m.Case(int(target)):
                        m.d.sync += register.eq(loaded)
                        if target == Control.RC:
                            m.d.sync += [rc_none.eq(loaded == 0), rc_short.eq(~loaded[1:].any())]
                with m.Case(int(Control.IOPR)):
                    m.d.sync += iopr.eq(loaded)

        self._entry(m, decoded, wm, xm, word, iopr, second=second, does=does, stop=stop, code=code, pc=pc)
        branches, target, left = self._branch(m, decoded, word, pc, second, counters)
        taken = fetched & branches
        for index, control in enumerate((Control.LC0, Control.LC1)):
            writes_it = decoded.write_control & (decoded.control == int(control))
            with m.If(self.go & simple & Mux(decoded.loop, word[_LOOP_BITS] == index, writes_it)):
                m.d.sync += counters[index].eq(Mux(decoded.loop, left, loaded))

        # On to the next word.
        advance = Signal()
        m.d.comb += [
            advance.eq(self.go & moves & ~passes),
            self.p_address.eq(Mux(taken, target, (pc_fetch + 1)[:WORD])),
            self.p_enable.eq(advance),
        ]
        with m.If(self.go & live):
            m.d.sync += second.eq(first_half)
        with m.If(advance):
            m.d.sync += [
                pc_fetch.eq(self.p_address),
                raw.eq(self.p_word),
                pc_read.eq(pc_fetch),
                read.eq(~taken),
                pc.eq(pc_read),
                fetched.eq(read & ~taken),
                outside.eq(pc_read >= self.config.p_depth),
                word.eq(raw),
            ]
            # The second word of an instruction is not decoded; what the first one meant still counts.
            with m.If(~first_half):
                m.d.sync += decoded.eq(decoder.decoded)
        self.registers = {
            "pc_fetch": pc_fetch, "pc_read": pc_read, "pc": pc, "raw": raw, "word": word,
            "decoded": decoded, "read": read, "fetched": fetched, "second": second, "outside": outside,
            "repeating": repeating, "remaining": remaining, "ending": ending, "stopping": stopping,
            "source_w": wm.source_address, "result_w": wm.result_address,
            "source_x": xm.source_address, "result_x": xm.result_address,
            "rc_none": rc_none, "rc_short": rc_short, "began_w": wm.began, "began_x": xm.began,
        }  # fmt: skip
        return m

    def _register_pending(self, decoded: Any) -> Any:
        """Return whether a register that is needed is still going to be written."""
        pending: Any = 0
        for stage, flight in enumerate(self.flights):
            needed = decoded.needed_register
            awaited = Mux(
                needed[-1], flight.writes_a, flight.writes_general & (flight.target == needed[: len(flight.target)])
            )
            pending |= decoded.needs_register & awaited
            if stage < _LATE_FOR_OPERANDS:
                pending |= (decoded.needs_factor & flight.writes_general & (flight.target == decoded.slot.factor)) | (
                    decoded.needs_a & flight.writes_a
                )
        return pending

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
            entry.valid.eq(does & ~decoded.issue_only),
            entry.stop.eq(stop),
            entry.code.eq(code),
            entry.pc.eq(pc),
            entry.constant.eq(constant),
            entry.wm_address.eq(wm.result_address),
            entry.xm_address.eq(xm.result_address),
        ]

    def _branch(self, m: Module, decoded: Any, word: Any, pc: Any, second: Any, counters: Any) -> tuple[Any, Any, Any]:
        """Return whether an instruction, if there is one and it goes ahead, branches, where to, and the loops left."""
        taken, target, holds = Signal(), Signal(ADDRESS), Signal()
        zero, wanted = self.a == 0, word[_BRANCH_BITS : _BRANCH_BITS + 2]
        m.d.comb += holds.eq(Array([self.a[-1], ~self.a[-1], zero, ~zero])[wanted])
        counter = counters[word[_LOOP_BITS]]
        with m.If(decoded.jump):
            m.d.comb += [taken.eq(second), target.eq(word)]
        with m.Elif(decoded.loop):
            m.d.comb += [taken.eq(counter != 1), target.eq(pc + word[:_LOOP_BITS].as_signed())]
        with m.Else():
            m.d.comb += [taken.eq(decoded.branch & holds), target.eq(pc + word[:_BRANCH_BITS].as_signed())]
        return taken, target, (counter - 1)[:WORD]
