# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""A DNP-II: memories, issue stage, arithmetic pipeline and four ports (D1-D6)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import enum, memory, wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD, ProcessorConfig
from contracts.dnp.isa import GENERAL, PORTS, Control, StopCode
from hw.block_memory import NO_BYPASS
from hw.dnp.address import address_bits
from hw.dnp.arithmetic import Arithmetic
from hw.dnp.instruction_issue import InstructionIssue
from hw.dnp.isa import ADDRESS
from hw.dnp.port import WORD_STREAM, Port
from hw.reset import Resettable

__all__ = ["Access", "Core", "Space", "Status"]

#: Most bits of the clock, instruction and waiting counters: two words are read.
COUNTER_BITS = 2 * WORD


class Space(enum.Enum, shape=2):
    """Memories that the chip control block accesses."""

    PROGRAM = 0
    WM = 1
    XM = 2
    STATUS = 3


class Status(enum.Enum, shape=6):
    """Addresses of the status space; counters low half first. A and registers only while the processor stands still."""

    STATE = 0  # bit 0 on-line, bit 1 halted, bits 8.. stop code
    PC = 1
    A = 2
    CLOCKS = 4
    INSTRUCTIONS = 6
    BLOCKED = 8
    GENERAL = 16
    CONTROL = 32


class Access(wiring.Signature):
    """Access to one word of a core. Memories only off-line.

    It is written within two clocks; read data are there two clocks after the address, as long as that stands.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "space": Out(Space),
                "address": Out(ADDRESS),
                "write": Out(1),
                "write_data": Out(unsigned(WORD)),
                "read_data": In(unsigned(WORD)),
            }
        )


class Core(wiring.Component):
    """One processor.

    Parameters
    ----------
    config
        Memory sizes.
    counters
        Bits of the counters of clocks, instructions and blocked clocks, 0..32; 0: no counters.

    Attributes
    ----------
    i, o
        Words from and to the neighbours, by port: N, E, S, W.
    online
        The program runs while this is high (D7).
    start
        A register, high in the clock before ``online`` rises and in the one after a reset: clears everything but the
        memories, and reads the first word.
    access
        Off-line access to the memories, and to the status at any time.
    halted
        The program has ended, by HALT or by an error.
    stop
        The error that ended it, or `StopCode.NONE`.

    Raises
    ------
    ValueError
        If `counters` is out of range.
    """

    i: Any
    o: Any
    online: Signal
    start: Signal
    access: Any
    halted: Signal
    stop: Signal

    def __init__(self, config: ProcessorConfig | None = None, *, counters: int = COUNTER_BITS) -> None:
        if not 0 <= counters <= COUNTER_BITS:
            raise ValueError(f"counters must be in 0..{COUNTER_BITS}, not {counters!r}")
        self.config = config or ProcessorConfig()
        self.counters = counters
        super().__init__(
            {
                "i": In(WORD_STREAM).array(len(PORTS)),
                "o": Out(WORD_STREAM).array(len(PORTS)),
                "online": In(1),
                "start": In(1),
                "access": In(Access()),
                "halted": Out(1),
                "stop": Out(StopCode),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Connect stages, ports and memories; block, stop and count."""
        m = Module()
        clear = Resettable(m, "started", self.start)
        issue, arithmetic = InstructionIssue(self.config), Arithmetic(self.config)
        m.submodules.issue = clear(issue)
        m.submodules.arithmetic = clear(arithmetic)
        go, blocked, halted, running = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            running.eq(self.online & ~halted),
            blocked.eq(~self._ports(m, clear, arithmetic, go)),
            go.eq(running & ~blocked),
            self.halted.eq(halted),
            issue.go.eq(go),
            arithmetic.go.eq(go),
            arithmetic.entry.eq(issue.entry),
            arithmetic.offline.eq(~self.online),
            arithmetic.given.eq(self.access.write_data),
            issue.a.eq(arithmetic.a),
        ]
        for source, target in ((arithmetic.flights, issue.flights), (arithmetic.general, issue.general)):
            for one, other in zip(source, target, strict=True):
                m.d.comb += other.eq(one)

        with m.If(self.start):
            m.d.sync += halted.eq(0)
        with m.Elif(go & arithmetic.last.stop):
            m.d.sync += halted.eq(1)
        # The issue stage knows the cause before what comes first is done.
        m.d.comb += self.stop.eq(Mux(halted, issue.stop, StopCode.NONE))

        counts = {
            Status.CLOCKS: running,
            Status.INSTRUCTIONS: issue.issued,
            Status.BLOCKED: running & blocked,
        }
        words = {status: self._counter(m, status, event) for status, event in counts.items()}
        reads = self._memories(m, issue, arithmetic, go)
        self._status(m, issue, reads, words, halted)
        return m

    def _ports(self, m: Module, clear: Resettable, arithmetic: Arithmetic, go: Any) -> Any:
        """Connect the four ports to the neighbours and the add stage; return whether they serve its instruction."""
        ports = [Port() for _ in PORTS]
        for index, (name, port) in enumerate(zip(PORTS, ports, strict=True)):
            m.submodules[f"port_{name.lower()}"] = clear(port)
            wiring.connect(m, wiring.flipped(self.i[index]), port.i)
            wiring.connect(m, wiring.flipped(self.o[index]), port.o)
            m.d.comb += [
                port.online.eq(self.online),
                port.take.eq(go & arithmetic.receives[index]),
                port.put.eq(go & arithmetic.sends[index]),
                port.put_word.eq(arithmetic.result),
                arithmetic.port_words[index].eq(port.word),
            ]
        words, room = Cat(port.has_word for port in ports), Cat(port.has_room for port in ports)
        return Cat(words | ~arithmetic.receives, room | ~arithmetic.sends).all()

    def _counter(self, m: Module, status: Any, event: Any) -> Any:
        if not self.counters:
            return Const(0, COUNTER_BITS)
        counter = Signal(self.counters, name=status.name.lower())
        with m.If(self.start):
            m.d.sync += counter.eq(0)
        with m.Elif(event):
            m.d.sync += counter.eq(counter + 1)
        return counter

    def _memories(self, m: Module, issue: InstructionIssue, arithmetic: Arithmetic, go: Any) -> dict[Space, Any]:
        """Give each memory a read and a write port, which serve the access while off-line; return the words read.

        The first word is read at the start. Read-during-write data are never used, because the issue stage stalls on
        that hazard. Words from the host for WM and XM pass the arithmetic pipeline, a clock later.
        """
        access, last = self.access, arithmetic.last
        address = Signal(address_bits(max(self.config.wm_depth, self.config.xm_depth)))
        m.d.sync += address.eq(access.address)
        online: dict[Space, tuple[int, Any, Any, Any, Any]] = {
            Space.PROGRAM: (self.config.p_depth, issue.p_address, issue.p_enable, Const(0, WORD), Const(0)),
            Space.WM: (self.config.wm_depth, issue.wm_address, go, last.wm_address, go & last.slot.write_wm),
            Space.XM: (self.config.xm_depth, issue.xm_address, go, last.xm_address, go & last.slot.write_xm),
        }
        reads = {}
        for space, (depth, read_address, read_enable, write_address, write_enable) in online.items():
            m.submodules[space.name.lower()] = rows = memory.Memory(
                shape=unsigned(WORD), depth=depth, init=[], attrs=dict(NO_BYPASS)
            )
            read, write = rows.read_port(domain="comb"), rows.write_port()
            word = Signal(WORD, name=f"{space.name.lower()}_read", reset_less=True)
            enable = Signal(name=f"{space.name.lower()}_enable")
            chosen = Signal(name=f"{space.name.lower()}_chosen")
            at_once = space is Space.PROGRAM
            # Reads past the end are not used, writes there are dropped.
            bits = len(read.addr)
            wanted = access.write & (access.space == space) & (access.address < depth)
            if at_once:
                m.d.comb += chosen.eq(wanted)
            else:
                m.d.sync += chosen.eq(wanted)
            m.d.comb += [
                read.addr.eq(Mux(self.online, read_address[:bits], Mux(self.start, 0, access.address[:bits]))),
                enable.eq(~self.online | read_enable),
                write.addr.eq(access.address if at_once else Mux(self.online, write_address, address[:bits])),
                write.data.eq(access.write_data if at_once else arithmetic.result),
                write.en.eq(Mux(self.online, write_enable, chosen)),
            ]
            with m.If(enable):
                m.d.sync += word.eq(read.data)
            reads[space] = word
        m.d.comb += [
            issue.p_word.eq(reads[Space.PROGRAM]),
            arithmetic.wm_word.eq(reads[Space.WM]),
            arithmetic.xm_word.eq(reads[Space.XM]),
        ]
        return reads

    def _status(
        self,
        m: Module,
        issue: InstructionIssue,
        reads: dict[Space, Any],
        counters: dict[Any, Any],
        halted: Any,
    ) -> None:
        """Read the status; registers pass the issue stage, which chooses among them for its instructions anyway.

        A register takes the word, for it is a long way from a memory, or through the issue stage, to the G-bus.
        """
        found = Signal(signed(WORD), reset_less=True)
        address = self.access.address[: Shape.cast(Status).width]
        m.d.sync += issue.looking.eq(~self.start & (~self.online | halted))
        m.d.comb += [issue.place.eq(address), self.access.read_data.eq(found)]
        values: dict[int, Any] = {
            Status.STATE.value: Cat(self.online, halted, Const(0, 6), self.stop),
            Status.PC.value: issue.stop_pc,
            Status.A.value: issue.register_found,
        }
        for name, counter in counters.items():
            values[name.value] = counter[:WORD]
            values[name.value + 1] = counter[WORD:]
        status = Signal(signed(WORD))
        with m.Switch(address):
            for at, value in values.items():
                with m.Case(at):
                    m.d.comb += status.eq(value)
            with m.Case(*(Status.GENERAL.value + number for number in range(GENERAL))):
                m.d.comb += status.eq(issue.register_found)
            with m.Case(*(Status.CONTROL.value + int(code) for code in Control)):
                m.d.comb += status.eq(issue.control_found)
        with m.Switch(self.access.space):
            for name, data in reads.items():
                with m.Case(name):
                    m.d.sync += found.eq(data)
            with m.Default():
                m.d.sync += found.eq(status)
