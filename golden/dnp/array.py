"""The cycle-exact machine: an array of DNP-IIs, every clock of it, vectorised over the processors (D1-D6).

A clock goes: the add stage carries out its instruction, or stands still with the whole processor if a port cannot
serve it; the stages move on; the issue stage sends the next instruction; words move over the links. Sums and
registers are read in the add stage, where everything older has been done; what is needed earlier (a factor from A or
RFn, an address, a branch's A, a word of a memory) makes the issue stage wait until its writer has left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import WORD, ProcessorConfig
from contracts.dnp.isa import GENERAL, INSTRUCTIONS, PORTS, StopCode
from contracts.dnp.topology import Grid
from golden.dnp.arithmetic import Ints, signed
from golden.dnp.decode import A_CODE, NONE, Trait, traits
from golden.dnp.execute import EFFECTS, Values
from golden.dnp.instruction_issue import Mask, issue
from golden.dnp.state import COMMIT, MULTIPLY, OPERAND, Slot, State

__all__ = ["ArrayModel", "DeadlockError", "EdgePort"]


class DeadlockError(RuntimeError):
    """No processor can go on; the message says who waits for whom."""


@dataclass
class EdgePort:
    """The host's end of an edge port.

    Attributes
    ----------
    words
        Signed words to send, in order.
    offers
        Clocks, repeated over and over, in which the host begins to offer a word; it keeps offering until accepted.
    accepts
        Clocks, repeated over and over, in which the host accepts a word.
    received
        Words that came out.
    """

    words: list[int] = field(default_factory=list)
    offers: Sequence[bool] = (True,)
    accepts: Sequence[bool] = (True,)
    received: list[int] = field(default_factory=list)
    offering: bool = False
    sent: int = 0

    def offer(self, clock: int) -> int | None:
        """Word offered in this clock, if any."""
        if self.sent == len(self.words):
            return None
        self.offering |= bool(self.offers[clock % len(self.offers)])
        return self.words[self.sent] if self.offering else None

    def take(self) -> None:
        """Take note that the word on offer was accepted."""
        self.sent += 1
        self.offering = False


class ArrayModel:
    """P processors on a grid.

    Parameters
    ----------
    config
        Memory sizes.
    grid
        Array and joints; one processor without partners by default.

    Attributes
    ----------
    state
        Everything the processors remember.
    edges
        The host's ends, by (side, place); every edge port without a joint has one.
    loaded
        Words of each memory, by its name in `state`, up to the last one that was loaded into any processor.
    """

    def __init__(self, config: ProcessorConfig | None = None, grid: Grid | None = None) -> None:
        self.config = config or ProcessorConfig()
        self.grid = grid or Grid(1, 1)
        self.state = State(self.config, self.grid.processors)
        self.sources = self.grid.sources()
        self.edges = {edge: EdgePort() for edge in self.grid.edges() if self.grid.joint(*edge) is None}
        self.clock = 0
        self.loaded = {"p": 0, "wm": 0, "xm": 0}
        # Where every output leads: the input fed by it, or NONE for the host.
        self.sinks = np.full(self.sources.size, NONE, dtype=np.int64)
        flat = self.sources.reshape(-1)
        linked = np.flatnonzero(flat >= 0)
        self.sinks[flat[linked]] = linked
        fed = set(flat[linked].tolist())
        self._outlets = {}
        for edge in self.grid.edges():
            processor, port = self.grid.edge(*edge)
            if 4 * processor + port not in fed:
                self._outlets[edge] = (processor, port)
                self.edges.setdefault(edge, EdgePort())

    def load(
        self,
        processor: int,
        program: Iterable[int] = (),
        wm: Mapping[int, int] | None = None,
        xm: Mapping[int, int] | None = None,
    ) -> None:
        """Write program words from address 0, and words of the memories, off-line (D7)."""
        words = list(program)
        self.state.p[processor, : len(words)] = np.asarray(words, dtype=np.int64) & ((1 << WORD) - 1)
        self.loaded["p"] = max(self.loaded["p"], len(words))
        for name, memory, content in (("wm", self.state.wm, wm), ("xm", self.state.xm, xm)):
            for address, value in (content or {}).items():
                memory[processor, address] = signed(np.asarray(value, dtype=np.int64))
                self.loaded[name] = max(self.loaded[name], address + 1)

    def start(self) -> None:
        """Go on-line (D7)."""
        self.state.start()
        self.clock = 0
        for edge in self.edges.values():
            edge.received.clear()
            edge.offering, edge.sent = False, 0

    def run(self, clocks: int = 1_000_000) -> int:
        """Step until every processor stands still; returns the clocks that took.

        Raises
        ------
        DeadlockError
            If nothing can move any more although processors still wait.
        TimeoutError
            If it takes more than ``clocks``.
        """
        while not self.state.halted.all():
            if self.clock >= clocks:
                raise TimeoutError(f"still running after {clocks} clocks")
            if not self.step():
                raise DeadlockError(self.explain())
        return self.clock

    def step(self) -> bool:
        """One clock; false if nothing can ever move again unless the host does something."""
        s = self.state
        rows = np.arange(s.processors)
        wire_valid, wire = self._wires()
        accepted = self._accepted()
        slot = s.pipe[COMMIT].copy()  # the stages move on below
        valid = (slot[Slot.VALID] == 1) & ~s.halted
        port_in, port_out = slot[Slot.PORT_IN], slot[Slot.PORT_OUT]
        ready_in = (s.irs | wire_valid)[rows, np.maximum(port_in, 0)]
        ready_out = (~s.ors | accepted)[rows, np.maximum(port_out, 0)]
        blocked = valid & (((port_in >= 0) & ~ready_in) | ((port_out >= 0) & ~ready_out))
        go = ~s.halted & ~blocked
        acts = valid & ~blocked
        s.blocked += blocked
        s.clocks += ~s.halted

        entering = issue(s, go)
        sent, sent_word = self._commit(acts, np.where(s.irs, s.in_buffer, wire))
        s.pipe[COMMIT] = np.where(go, s.pipe[MULTIPLY], s.pipe[COMMIT])
        s.pipe[MULTIPLY] = np.where(go, s.pipe[OPERAND], s.pipe[MULTIPLY])
        s.pipe[OPERAND] = np.where(go, entering, s.pipe[OPERAND])

        used = np.zeros_like(s.irs)
        taking = acts & (port_in >= 0)
        used[rows[taking], port_in[taking]] = True
        arriving = wire_valid & ~s.irs
        stored = arriving & ~used
        self._serve_host(arriving, accepted)
        s.in_buffer = np.where(stored, wire, s.in_buffer)
        s.irs = (s.irs & ~used) | stored
        s.ors = (s.ors & ~accepted) | sent
        s.out_buffer = np.where(sent, sent_word, s.out_buffer)
        self.clock += 1
        # A word that is on offer already brings nothing to life by itself.
        host_busy = any(edge.sent < len(edge.words) and not edge.offering for edge in self.edges.values())
        return bool(go.any() or arriving.any() or accepted.any() or host_busy or s.halted.all() or self._host_takes())

    def explain(self) -> str:
        """Which processors wait for whom, one line each."""
        s = self.state
        lines = []
        for processor in np.flatnonzero(~s.halted):
            slot = s.pipe[COMMIT][:, processor]
            name = INSTRUCTIONS[int(traits()[slot[Slot.WORD], Trait.ROW])].mnemonic
            for slot_name, verb in ((Slot.PORT_IN, "for a word from"), (Slot.PORT_OUT, "for room at")):
                port = int(slot[slot_name])
                if port == NONE:
                    continue
                ends = self.sources.reshape(-1) if slot_name == Slot.PORT_IN else self.sinks
                other = int(ends[4 * processor + port])
                partner = "the host" if other == NONE else f"processor {other // 4}"
                if other != NONE and s.halted[other // 4]:
                    partner += f" (halted, code {StopCode(int(s.code[other // 4])).name})"
                stuck = not s.irs[processor, port] if slot_name == Slot.PORT_IN else s.ors[processor, port]
                if stuck:
                    lines.append(
                        f"processor {processor} at address {slot[Slot.PC]} ({name}) waits {verb} {partner} "
                        f"on port {PORTS[port]}"
                    )
        return "deadlock: " + "; ".join(lines)

    def _wires(self) -> tuple[Mask, Ints]:
        """Look at what every input sees: whether a word is offered, and the word."""
        s = self.state
        flat = self.sources.reshape(-1)
        linked = flat >= 0
        at = np.maximum(flat, 0)
        valid = (s.ors.reshape(-1)[at] & linked).reshape(self.sources.shape)
        word = s.out_buffer.reshape(-1)[at].reshape(self.sources.shape)
        for edge, host in self.edges.items():
            if self.grid.joint(*edge) is None:
                offered = host.offer(self.clock)
                if offered is not None:
                    where = self.grid.edge(*edge)
                    valid[where], word[where] = True, offered
        return valid, word

    def _accepted(self) -> Mask:
        """Which full output buffers are emptied in this clock."""
        s = self.state
        free = np.append(~s.irs.reshape(-1), False)
        ready = free[self.sinks].reshape(s.ors.shape)
        for edge, where in self._outlets.items():
            accepts = self.edges[edge].accepts
            ready[where] = bool(accepts[self.clock % len(accepts)])
        return s.ors & ready

    def _host_takes(self) -> bool:
        return any(self.state.ors[where] for where in self._outlets.values())

    def _serve_host(self, arriving: Mask, accepted: Mask) -> None:
        for edge, host in self.edges.items():
            if self.grid.joint(*edge) is None and arriving[self.grid.edge(*edge)]:
                host.take()
        for edge, where in self._outlets.items():
            if accepted[where]:
                self.edges[edge].received.append(int(self.state.out_buffer[where]))

    def _commit(self, acts: Mask, port_words: Ints) -> tuple[Mask, Ints]:
        """Carry out the instructions of the add stage; returns what goes into output buffers."""
        s = self.state
        sent = np.zeros_like(s.ors)
        sent_word = np.zeros_like(s.out_buffer)
        slot = s.pipe[COMMIT]
        stops = acts & (slot[Slot.STOP] >= 0)
        s.halted |= stops
        s.code = np.where(stops, slot[Slot.STOP] - 1, s.code)
        s.stop_pc = np.where(stops, slot[Slot.PC], s.stop_pc)
        table = traits()[slot[Slot.WORD]]
        names = np.where(acts & ~stops, table[:, Trait.ROW], NONE)
        for row in np.unique(names[names >= 0]):
            who = np.flatnonzero(names == row)
            t = table[who]
            result = EFFECTS[INSTRUCTIONS[row].name](self._values(who, t, port_words))
            self._store(who, t, result)
            port = slot[Slot.PORT_OUT, who]
            out = port >= 0
            sent[who[out], port[out]] = True
            sent_word[who[out], port[out]] = result[out]
        return sent, sent_word

    def _values(self, who: npt.NDArray[np.intp], t: npt.NDArray[np.int16], port_words: Ints) -> Values:
        s, slot = self.state, self.state.pipe[COMMIT]
        a = s.a[who]
        w = s.wm[who, np.maximum(slot[Slot.WM_READ, who], 0)]
        x = s.xm[who, np.maximum(slot[Slot.XM_READ, who], 0)]
        named = t[:, Trait.COMMIT_READS]
        general = s.rf[who, np.clip(named, 0, GENERAL - 1)]
        memory = np.where(slot[Slot.WM_READ, who] >= 0, w, x)
        source = np.where(named == NONE, memory, np.where(named == A_CODE, a, general))
        r = s.rf[who, np.clip(t[:, Trait.OPERAND_READS], 0, GENERAL - 1)]
        word = port_words[who, np.maximum(slot[Slot.PORT_IN, who], 0)]
        return Values(a, r, w, x, source, word, slot[Slot.CONSTANT, who])

    def _store(self, who: npt.NDArray[np.intp], t: npt.NDArray[np.int16], result: Ints) -> None:
        s, slot = self.state, self.state.pipe[COMMIT]
        clears = t[:, Trait.CLEARS_A] == 1
        s.a[who[clears]] = 0
        writes = t[:, Trait.WRITES]
        to_a = (writes == A_CODE) & ~clears
        s.a[who[to_a]] = result[to_a]
        to_r = (writes >= 0) & (writes < A_CODE)
        s.rf[who[to_r], writes[to_r]] = result[to_r]
        for memory, name in ((s.wm, Slot.WM_WRITE), (s.xm, Slot.XM_WRITE)):
            address = slot[name, who]
            stores = address >= 0
            memory[who[stores], address[stores]] = result[stores]
