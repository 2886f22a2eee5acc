"""Degree lists: vertices of each degree in lists, made while their rows are loaded (I1)."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.config import LocatorConfig
from hw.locator.loader import Rows, row_of

__all__ = ["DegreeLists", "Head", "LinkedRows"]


class Head(data.StructLayout):
    """A list: the ``count`` of its vertices, and the ``first`` one's place in the bank."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"count": config.place_bits + 1, "first": config.place_bits})


class LinkedRows(data.StructLayout):
    """Rows to store, and for each the place of the ``next`` vertex of its degree in the same bank."""

    def __init__(self, config: LocatorConfig) -> None:
        next_ = data.ArrayLayout(config.place_bits, config.load_words)
        super().__init__({"rows": Rows(config), "next": next_})


class DegreeLists(wiring.Component):
    """Keeps a list for each degree and bank, the vertex that came last first; rows pass with their links.

    The lists of `LocatorConfig.top_level` hold the vertices of all higher degrees, too.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    clear
        Forget all lists, which takes a cycle for each degree there may be. Needed before rows of another graph; not
        after a reset.
    i
        Rows; not ready while the lists are cleared.
    o
        The same rows, linked.
    busy
        Rows are on their way, or lists are being cleared.
    level, heads
        A degree; its list in each bank, two cycles later, if no rows are on their way.
    most
        No degree is larger, in as few bits.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "clear": In(1),
                "i": In(stream.Signature(Rows(config))),
                "o": Out(stream.Signature(LinkedRows(config))),
                "busy": Out(1),
                "level": In(range(config.top_level + 1)),
                "most": Out(range(config.top_level + 1)),
                "heads": Out(data.ArrayLayout(Head(config), config.banks)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Three stages: read the head of a row's list; wait; write the row as the new head."""
        m = Module()
        config = self.config
        # A memory does not follow a reset, so it is cleared then, too.
        clearing, cleared, moves = Signal(init=1), Signal(range(config.top_level + 1)), Signal()
        most = Signal.like(cleared, init=config.top_level)
        m.d.comb += [
            self.most.eq(most),
            moves.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(moves & ~clearing),
        ]
        with m.If(clearing):
            m.d.sync += cleared.eq(cleared + 1)
            with m.If(cleared == most):
                m.d.sync += [clearing.eq(0), cleared.eq(0), most.eq(0)]
        with m.If(self.clear):
            m.d.sync += clearing.eq(1)
        stages = [self.i.payload]
        valid = [self.i.valid & self.i.ready]
        for n in range(2):
            rows, comes = Signal(Rows(config), name=f"rows{n}", reset_less=True), Signal(name=f"comes{n}")
            with m.If(moves):
                m.d.sync += [rows.eq(stages[-1]), comes.eq(valid[-1])]
            stages.append(rows)
            valid.append(comes)
        next_ = [self._bank(m, number, stages, valid[-1] & moves, moves, clearing, cleared)
                 for number in range(config.banks)]  # fmt: skip
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(valid[-1]), self.o.payload.rows.eq(stages[-1])]
            for lane in range(config.load_words):
                among = next_[lane :: config.load_words]
                which = stages[-1].group[: exact_log2(len(among))]
                m.d.sync += self.o.payload.next[lane].eq(Array(among)[which] if len(among) > 1 else among[0])
        with m.If(valid[1]):
            degrees = (Mux(stages[1].mask[n], stages[1].rows[n].degree, 0) for n in range(config.load_words))
            seen = reduce(or_, degrees)
            high = seen[len(most) :].any()
            m.d.sync += most.eq(most | seen[: len(most)] | high.replicate(len(most)))
        m.d.comb += self.busy.eq(clearing | valid[1] | valid[2] | self.o.valid)
        return m

    def _bank(
        self, m: Module, number: int, stages: list[data.View], comes: object, moves: Signal, clearing: Signal,
        cleared: Signal,
    ) -> Signal:  # fmt: skip
        """Keep the heads of a bank; return the first vertex of the list that the row in the last stage belongs to."""
        config = self.config
        words, spacing = config.load_words, config.banks // config.load_words
        lane = number % words
        m.submodules[f"heads{number}"] = heads = Memory(
            shape=Head(config), depth=config.top_level + 1, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = heads.write_port(), registered_read(m, heads, f"read{number}")

        def level(rows: data.View) -> Value:
            # The last list has a number of ones only.
            degree, bits = rows.rows[lane].degree, config.top_level.bit_length()
            return degree[:bits] | degree[bits:].any().replicate(bits)

        old, seen = Signal(Head(config), name=f"old{number}"), self.heads[number]
        mine, place = row_of(config, stages[-1], number)
        mine = comes & mine
        early, late = (Signal(range(config.top_level + 1), name=f"{name}{number}") for name in ("early", "late"))
        m.d.comb += [
            read.en.eq(moves),
            read.addr.eq(Mux(self.i.valid, level(stages[0]), self.level)),
            old.eq(seen),
            write.en.eq(clearing | mine),
            write.addr.eq(Mux(clearing, cleared, late)),
            write.data.count.eq(Mux(clearing, 0, old.count + 1)),
            write.data.first.eq(place),
        ]
        with m.If(moves):
            m.d.sync += [seen.eq(read.data), early.eq(level(stages[0])), late.eq(early)]
        # Heads that were written while this one was on its way, if rows of this bank come so often.
        written = [Signal(data.StructLayout({"valid": 1, "level": late.shape(), "head": Head(config)}),
                          name=f"written{number}_{age}") for age in range(2)]  # fmt: skip
        with m.If(moves):
            m.d.sync += [
                written[0].valid.eq(mine),
                written[0].level.eq(late),
                written[0].head.eq(write.data),
                written[1].eq(written[0]),
            ]
        for age in (1, 0):
            if (age + 1) % spacing == 0:
                with m.If(written[age].valid & (written[age].level == late)):
                    m.d.comb += old.eq(written[age].head)
        return old.first
