# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""The issue stage: fetch, decode, repetition, addresses, branches, and stalls for operands (D3, D5)."""

from typing import Any, NamedTuple

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD, ProcessorConfig, pointer_bits
from contracts.dnp.isa import GENERAL, IOPR_CODE, PORTS, Control, StopCode
from hw.dnp.address import STAGES, AddressGenerator, pointer
from hw.dnp.arithmetic import entry_layout, flight_layout
from hw.dnp.decoder import Decoder
from hw.dnp.isa import ADDRESS, SIGNED_WORD, Decoded

__all__ = ["InstructionIssue"]

_WM_POINTERS = range(Control.WA0, Control.WR3 + 1)
_XM_POINTERS = range(Control.XA0, Control.XR3 + 1)
_BRANCH_BITS, _LOOP_BITS = 8, 9
#: Flights whose results are too late for the operand stage; the one in the add stage is done by then.
_LATE_FOR_OPERANDS = 2


class _Stage(NamedTuple):
    """Decisions about the word in the stage, without ``go``.

    ``live``: it is valid and the processor is not stopping. ``first_half``: it is the first of two words. ``simple``:
    it acts, if its addresses allow; ``hold``: they do not; ``act``: it acts. ``ahead``, ``does``: like ``simple`` and
    ``act``, unless the instruction is skipped. ``stop``: the processor stops. ``moves``: the next clock has another
    instruction, another pass, or the second word; ``takes``: not the last of these.
    """

    live: Signal
    first_half: Signal
    simple: Signal
    ahead: Signal
    hold: Signal
    act: Signal
    does: Signal
    stop: Signal
    moves: Signal
    takes: Signal


class InstructionIssue(wiring.Component):
    """Issues an instruction a clock, unless it stalls, branches or has a second word.

    Parameters
    ----------
    config
        Memory sizes.

    Attributes
    ----------
    go
        The stage may work in this clock.
    p_address, p_enable, p_word
        Program memory: address of the next word, read if ``p_enable``; ``p_word`` holds until then. In the first clock
        it is the word at address 0.
    flights
        Instructions in the later stages.
    a, general
        Registers, for branches and for moves into control registers.
    wm_address, xm_address
        Read addresses of the instruction that enters the operand stage.
    entry
        Enters the operand stage if ``go``.
    issued
        An instruction, or one more pass of it, is issued.
    stop, stop_pc
        Once a stop has been issued: its cause, and the address of the instruction that stops.
    looking, place
        The processor stands still until the next start, and a register is read back.
    register_found, control_found
        The general register that the instruction needs, or A, and the control register that it names. When registers
        are read back, a clock later: A if the top bit of ``place`` is 0, else the general register, and the control
        register, of this number.

    The registers are public attributes, for proofs.
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
    stop: Signal
    stop_pc: Signal
    looking: Signal
    place: Signal
    register_found: Signal
    control_found: Signal

    def __init__(self, config: ProcessorConfig) -> None:
        self.config = config
        self.wm = AddressGenerator(config.wm_depth, past_start=1)
        self.xm = AddressGenerator(config.xm_depth, past_start=0, step=1)
        # Registers without a reset mean nothing until the first instruction is there.
        # Addresses of the words at the memory's output, in front of the decoder, and behind it.
        pc = unsigned(pointer_bits(config.p_depth))
        self.pc_fetch = Signal(pc)
        self.pc_read, self.pc = (Signal(pc, name=name, reset_less=True) for name in ("pc_read", "pc"))
        self.raw, self.word = (Signal(WORD, name=name, reset_less=True) for name in ("raw", "word"))
        # A reset that is its own keeps synthesis from making one of a decoder's zeros, behind the late enable.
        self.decoded = Signal(Decoded)
        # The word in front of the decoder is valid; the one behind it is valid, past the end, a second word.
        flags = ("read", "fetched", "outside", "second")
        self.read, self.fetched, self.outside, self.second = (Signal(name=name) for name in flags)
        self.stopping = Signal()
        # A register that the instruction needs is still to be written.
        self.register_pending = Signal()
        # Passes left of a repetition, and whether the last one begins.
        self.repeating, self.ending = (Signal(name=name) for name in ("repeating", "ending"))
        self.remaining = Signal(ADDRESS, reset_less=True)
        # Control registers. When RC is written, these flags say that it is 0, and that it is 0 or 1.
        self.icr, self.rc, self.table = (Signal(ADDRESS, name=name) for name in ("icr", "rc", "tb"))
        self.rc_none, self.rc_short = (Signal(name=name, init=1) for name in ("rc_none", "rc_short"))
        self.iopr = Signal(range(len(PORTS)))
        self.counters = Array([Signal(ADDRESS, name=f"lc{i}") for i in range(2)])
        super().__init__(
            {
                "go": In(1),
                "p_address": Out(pc),
                "p_enable": Out(1),
                "p_word": In(unsigned(WORD)),
                "flights": In(flight_layout(config)).array(STAGES),
                "a": In(SIGNED_WORD),
                "general": In(SIGNED_WORD).array(GENERAL),
                "wm_address": Out(pointer_bits(config.wm_depth)),
                "xm_address": Out(pointer_bits(config.xm_depth)),
                "entry": Out(entry_layout(config)),
                "issued": Out(1),
                "stop": Out(StopCode),
                "stop_pc": Out(pc),
                "looking": In(1),
                "place": In(range(len(Control))),
                "register_found": Out(unsigned(WORD)),
                "control_found": Out(unsigned(WORD)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Decode, address, stall or act, fetch."""
        m = Module()
        m.submodules.decoder = decoder = Decoder()
        m.submodules.wm, m.submodules.xm = self.wm, self.xm
        m.d.comb += decoder.word.eq(self.raw)
        skip, last = Signal(), Signal()
        stage = self._decide(m, skip)
        self._repeat(m, stage, skip, last)
        passes = Signal()
        m.d.comb += passes.eq(self.fetched & ~last)
        self._look_ahead(m, stage, skip, passes, decoder.decoded)
        self._address(m, stage, skip, last)
        self._next_pointers(m, passes, decoder.decoded)
        self._load(m, stage.simple)
        self._send(m, stage)
        taken, target = self._branch(m)
        self._fetch(m, stage, passes, decoder.decoded, self.fetched & taken, target)
        self._read(m)
        return m

    def control(self) -> list[Any]:
        """Return the control registers in the order of their codes."""
        return [*self.wm.pointers, *self.xm.pointers, self.icr, self.rc, *self.counters, self.iopr, self.table]

    def _read(self, m: Module) -> None:
        """Choose the registers that the instruction names; to read back, name them in its place."""
        decoded = self.decoded
        named = decoded.needed_register
        m.d.comb += [
            self.register_found.eq(Mux(named[-1], self.a, Array(self.general)[named[:-1]])),
            self.control_found.eq(Array(self.control())[decoded.control]),
        ]
        with m.If(self.looking):
            m.d.sync += [named.eq(Cat(self.place[: len(named) - 1], ~self.place[-1])), decoded.control.eq(self.place)]

    def _decide(self, m: Module, skip: Signal) -> _Stage:
        """Decide whether the instruction acts, stalls or stops the processor.

        ``go`` is late, and so are conditions on addresses. These do not matter to instructions without memory operands,
        which are those that branch or load control registers; so ``simple`` leaves them out.
        """
        decoded, wm, xm = self.decoded, self.wm, self.xm
        live, defined, first_half = Signal(), Signal(), Signal()
        code, considered = Signal(StopCode), Signal()
        free, simple, ahead, pending, bad, hold = (
            Signal(name=n) for n in ("free", "simple", "ahead", "pending", "bad", "hold")
        )
        act, does, stop, waits, moves, takes = (
            Signal(name=n) for n in ("act", "does", "stop", "waits", "moves", "takes")
        )
        wm_bad, xm_bad = (
            (memory.reads & memory.source_outside) | (memory.stores & memory.result_outside) for memory in (wm, xm)
        )
        m.d.comb += [
            live.eq(self.fetched & ~self.stopping),
            defined.eq(decoded.defined.any()),
            first_half.eq(live & defined & decoded.two_words & ~self.second & ~self.outside),
            considered.eq(defined & ~self.outside & ~self.second & ~skip),
            free.eq(live & ~first_half & ~(considered & self.register_pending)),
            simple.eq(free & defined & ~self.outside & ~decoded.halt),
            pending.eq(wm.source_pending | xm.source_pending),
            bad.eq(wm_bad | xm_bad),
            hold.eq(considered & (pending | bad)),
            act.eq(simple & ~hold),
            # Past the end nothing is pending, but a stop still waits for the other memory.
            waits.eq((wm.source_pending & ~wm.source_outside) | (xm.source_pending & ~xm.source_outside)),
            stop.eq(free & ~(considered & waits) & (self.outside | ~defined | decoded.halt | (considered & bad))),
            ahead.eq(simple & ~skip),
            does.eq(ahead & ~hold),
            self.issued.eq(self.go & does),
            # At a stop the processor stands still, so it does not matter that the stage moves on.
            takes.eq(~self.fetched | (simple & ~(considered & pending))),
            moves.eq(first_half | takes),
        ]
        # The first cause counts.
        with m.If(self.outside):
            m.d.comb += code.eq(StopCode.PC_RANGE)
        with m.Elif(~defined):
            m.d.comb += code.eq(StopCode.OPCODE)
        with m.Elif(considered & bad):
            m.d.comb += code.eq(Mux(wm_bad, StopCode.WM_RANGE, StopCode.XM_RANGE))
        with m.If(self.go & stop):
            m.d.sync += [self.stopping.eq(1), self.stop.eq(code), self.stop_pc.eq(self.pc)]
        return _Stage(live, first_half, simple, ahead, hold, act, does, stop, moves, takes)

    def _repeat(self, m: Module, stage: _Stage, skip: Signal, last: Signal) -> None:
        """Count the passes of a repetition; an RC of 0 skips the instruction."""
        repeat, count = Signal(), Signal(ADDRESS)
        m.d.comb += [
            repeat.eq(self.decoded.repeat),
            count.eq(Mux(self.repeating, self.remaining, self.rc)),
            skip.eq(repeat & ~self.repeating & self.rc_none),
            last.eq(~repeat | Mux(self.repeating, self.ending, self.rc_short)),
        ]
        with m.If(self.go & stage.does & repeat):
            m.d.sync += [self.remaining.eq(count - 1), self.ending.eq(~count[2:].any() & ~count[:2].all())]
        with m.If(self.go & stage.act):
            m.d.sync += self.repeating.eq(repeat & ~last)

    def _address(self, m: Module, stage: _Stage, skip: Signal, last: Signal) -> None:
        """Connect the address generators."""
        decoded = self.decoded
        m.d.comb += [
            self.wm.stride.eq(self.icr),
            self.wm_address.eq(self.wm.source_address),
            self.xm_address.eq(self.xm.source_address),
        ]
        for memory, prefix in ((self.wm, "wm"), (self.xm, "xm")):
            m.d.comb += [
                memory.reads.eq(getattr(decoded, f"{prefix}_source")),
                memory.source.eq(getattr(decoded, f"{prefix}_source_pointer")),
                memory.source_mode.eq(getattr(decoded, f"{prefix}_source_mode")),
                memory.stores.eq(getattr(decoded.slot, f"write_{prefix}")),
                memory.result.eq(getattr(decoded, f"{prefix}_result_pointer")),
                memory.result_step.eq(getattr(decoded, f"{prefix}_result_step")),
                memory.first.eq(~self.repeating),
                memory.last.eq(last),
                memory.go.eq(self.go),
                memory.ahead.eq(stage.ahead),
                memory.hold.eq(stage.hold),
                memory.moves.eq(stage.moves),
                memory.present.eq(self.fetched & ~skip),
            ]
            for flight, write in zip(self.flights, memory.writes, strict=True):
                m.d.comb += [
                    write.valid.eq(getattr(flight, f"writes_{prefix}")),
                    write.address.eq(getattr(flight, f"{prefix}_address")),
                ]

    def _next_pointers(self, m: Module, passes: Signal, following: Any) -> None:
        """Select the pointers of the next clock: one more pass uses those of this instruction again."""
        for memory, prefix in ((self.wm, "wm"), (self.xm, "xm")):
            for kind in ("source", "result"):
                name = f"{prefix}_{kind}_pointer"
                used, wanted = getattr(self.decoded, name), getattr(following, name)
                m.d.comb += getattr(memory, f"next_{kind}").eq(Mux(passes, used, wanted))

    def _load(self, m: Module, simple: Signal) -> None:
        """Load a control register; WA3 turns a value into the address of its table entry (D8)."""
        decoded = self.decoded
        moved, loaded = Signal(ADDRESS), Signal(ADDRESS)
        entry_index = Signal(ADDRESS)
        writes = Signal()
        m.d.comb += [
            # No pointer is loaded with an instruction's own byte.
            moved.eq(Mux(self.second, self.word, self.register_found)),
            loaded.eq(Mux(decoded.byte, self.word[:8], moved)),
            entry_index.eq((moved ^ (1 << (WORD - 1)))[WORD - self.config.table_bits :]),
            writes.eq(simple & decoded.write_control),
        ]
        for memory, codes in ((self.wm, _WM_POINTERS), (self.xm, _XM_POINTERS)):
            m.d.comb += [
                memory.load.eq(writes & memory.loads_pointer),
                memory.loads_pointer.eq((decoded.control >= codes.start) & (decoded.control < codes.stop)),
                memory.load_pointer.eq(decoded.control),
                memory.load_value.eq(moved),
                memory.load_last.eq(moved if memory is self.xm else self.table + entry_index),
                memory.loads.eq(decoded.write_control),
            ]
        with m.If(self.go & writes):
            with m.Switch(decoded.control):
                with m.Case(int(Control.ICR)):
                    m.d.sync += self.icr.eq(loaded)
                with m.Case(int(Control.RC)):
                    m.d.sync += [self.rc.eq(loaded), self.rc_none.eq(loaded == 0), self.rc_short.eq(~loaded[1:].any())]
                with m.Case(int(Control.TB)):
                    m.d.sync += self.table.eq(loaded)
                with m.Case(int(Control.IOPR)):
                    m.d.sync += self.iopr.eq(loaded)
        left = (self.counters[self.word[_LOOP_BITS]] - 1)[:WORD]
        for index, control in enumerate((Control.LC0, Control.LC1)):
            writes_it = decoded.write_control & (decoded.control == int(control))
            with m.If(self.go & simple & Mux(decoded.loop, self.word[_LOOP_BITS] == index, writes_it)):
                m.d.sync += self.counters[index].eq(Mux(decoded.loop, left, loaded))

    def _look_ahead(self, m: Module, stage: _Stage, skip: Signal, passes: Signal, following: Any) -> None:
        """Compare the needed registers with those that will be written, a clock before it decides about a stall."""
        decoded = self.decoded
        entering, (first, second, _) = Signal(flight_layout(self.config)), self.flights
        leaves = Signal()
        m.d.comb += [
            # If it goes ahead, its effects are behind it in the next clock.
            leaves.eq(self.fetched & ~skip & ~decoded.issue_only & (self.second | ~decoded.two_words)),
            entering.writes_a.eq(leaves & (decoded.slot.write_a | decoded.slot.clear_a)),
            entering.writes_general.eq(leaves & decoded.slot.write_general),
            entering.target.eq(decoded.slot.target),
        ]
        stays, repeats, follows = (Signal(name=name) for name in ("stays", "repeats", "follows"))
        m.d.comb += [
            stays.eq(self._awaits(decoded, None, first, second)),
            repeats.eq(self._awaits(decoded, entering, first, second)),
            follows.eq(self._awaits(following, entering, first, second)),
        ]
        with m.If(self.go):
            m.d.sync += self.register_pending.eq(Mux(stage.moves, Mux(passes, repeats, follows), stays))

    def _awaits(self, instruction: Any, *flights: Any) -> Any:
        """Return whether an instruction needs a register that one of the flights, youngest first, is going to write."""
        pending: Any = 0
        for age, flight in enumerate(flights):
            if flight is None:
                continue
            needed = instruction.needed_register
            awaited = Mux(
                needed[-1], flight.writes_a, flight.writes_general & (flight.target == needed[: len(flight.target)])
            )
            pending |= instruction.needs_register & awaited
            if age < _LATE_FOR_OPERANDS:
                factor = flight.writes_general & (flight.target == instruction.slot.factor)
                pending |= (instruction.needs_factor & factor) | (instruction.needs_a & flight.writes_a)
        return pending

    def _send(self, m: Module, stage: _Stage) -> None:
        """Form the entry of the operand stage."""
        decoded, entry = self.decoded, self.entry
        constant = Signal(signed(WORD))
        with m.If(self.second):
            m.d.comb += constant.eq(self.word)
        with m.Elif(decoded.read_control):
            m.d.comb += constant.eq(self.control_found)
        with m.Else():
            m.d.comb += constant.eq(self.word[:4])
        m.d.comb += [
            entry.slot.eq(decoded.slot),
            entry.slot.receive_port.eq(Mux(decoded.receive_code == IOPR_CODE, self.iopr, decoded.slot.receive_port)),
            entry.slot.send_port.eq(Mux(decoded.send_code == IOPR_CODE, self.iopr, decoded.slot.send_port)),
            entry.valid.eq(stage.does & ~decoded.issue_only),
            entry.stop.eq(stage.stop),
            entry.constant.eq(constant),
            entry.wm_address.eq(self.wm.result_address),
            entry.xm_address.eq(self.xm.result_address),
        ]

    def _branch(self, m: Module) -> tuple[Signal, Signal]:
        """Return whether a valid instruction that goes ahead branches, and where to."""
        decoded, word = self.decoded, self.word
        taken, target, holds = Signal(), Signal(ADDRESS), Signal()
        zero, wanted = self.a == 0, word[_BRANCH_BITS : _BRANCH_BITS + 2]
        m.d.comb += holds.eq(Array([self.a[-1], ~self.a[-1], zero, ~zero])[wanted])
        with m.If(decoded.jump):
            m.d.comb += [taken.eq(self.second), target.eq(word)]
        with m.Elif(decoded.loop):
            again = self.counters[word[_LOOP_BITS]] != 1
            m.d.comb += [taken.eq(again), target.eq(self.pc + word[:_LOOP_BITS].as_signed())]
        with m.Else():
            m.d.comb += [taken.eq(decoded.branch & holds), target.eq(self.pc + word[:_BRANCH_BITS].as_signed())]
        return taken, target

    def _fetch(self, m: Module, stage: _Stage, passes: Signal, following: Any, taken: Any, target: Signal) -> None:
        """Move on to the next word, or to the target of a branch."""
        advance = Signal()
        following_pc = (self.pc_fetch + 1)[: len(self.pc_fetch)]
        m.d.comb += [
            advance.eq(self.go & stage.moves & ~passes),
            self.p_address.eq(Mux(taken, pointer(target, self.config.p_depth), following_pc)),
            self.p_enable.eq(advance),
        ]
        with m.If(self.go & stage.live):
            m.d.sync += self.second.eq(stage.first_half)
        with m.If(advance):
            m.d.sync += [
                self.pc_fetch.eq(self.p_address),
                self.raw.eq(self.p_word),
                self.pc_read.eq(self.pc_fetch),
                self.read.eq(~taken),
                self.pc.eq(self.pc_read),
                self.fetched.eq(self.read & ~taken),
                self.outside.eq(self.pc_read >= self.config.p_depth),
                self.word.eq(self.raw),
            ]
        # The second word of an instruction is not decoded: the first one stays in effect.
        with m.If(self.go & stage.takes & ~passes):
            m.d.sync += self.decoded.eq(following)
