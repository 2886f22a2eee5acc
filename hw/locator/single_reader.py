"""Single reader: seeds of searches and vertices that they have put aside, looked up one by one."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.config import LocatorConfig
from hw.locator.formats import Bundle, Work
from hw.locator.neighbour_classifier import Aside
from hw.locator.turns import context_place, in_turn, number_of

__all__ = ["SingleReader"]


class SingleReader(wiring.Component):
    """Keeps the vertices and emits one after another, each as a bundle with one vertex in the first lane.

    Nothing is read in the cycle in which it is written: a search asks when nothing is under way for it.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    wants, again, seeds, asides
        Of each search: whether it wants a vertex; whether that was put aside; the place of its seed in the task's line;
        the place in its list of those put aside.
    taken
        One bit for each search: its vertex is on its way.
    context, group, vertices, put_group
        A bundle of the task's line to keep for a search: its number, its vertices, whether to keep it.
    aside, aside_end
        A vertex of the same search to put aside, and its place.
    o
        The bundles.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        searches, groups = config.searches, config.line_words // config.lanes
        super().__init__(
            {
                "wants": In(searches),
                "again": In(searches),
                "seeds": In(max(1, exact_log2(config.line_words))).array(searches),
                "asides": In(config.aside_bits).array(searches),
                "taken": Out(searches),
                "context": In(config.context_bits),
                "group": In(range(max(2, groups))),
                "vertices": In(config.node_bits).array(config.lanes),
                "put_group": In(1),
                "aside": In(stream.Signature(Aside(config), always_ready=True)),
                "aside_end": In(config.aside_bits),
                "o": Out(stream.Signature(Bundle(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Select a search, read its vertex, offer it."""
        m = Module()
        config, searches, in_group = self.config, self.config.searches, exact_log2(self.config.lanes)
        groups = config.line_words // config.lanes
        lines = memory.Memory(
            shape=config.node_bits * config.lanes, depth=max(2, searches * groups), init=[], attrs=dict(NO_BYPASS)
        )
        asides = memory.Memory(shape=Aside(config), depth=searches << config.aside_bits, init=[], attrs=dict(NO_BYPASS))
        m.submodules.lines, m.submodules.asides = lines, asides
        put_line, line = lines.write_port(), registered_read(m, lines, "line")
        put_aside, aside = asides.write_port(), registered_read(m, asides, "aside")
        moves, chosen = Signal(), in_turn(m, "turn", self.wants, ~self.o.valid | self.o.ready)
        number, again, lane = number_of(chosen), Signal(), Signal(max(1, in_group))
        seed, bundle = Array(self.seeds)[number], self.o.payload
        m.d.comb += [
            put_line.en.eq(self.put_group),
            put_line.addr.eq(context_place(searches, self.context, self.group[: exact_log2(groups)])),
            put_line.data.eq(Cat(self.vertices)),
            put_aside.en.eq(self.aside.valid),
            put_aside.addr.eq(context_place(searches, self.context, self.aside_end)),
            put_aside.data.eq(self.aside.payload),
            moves.eq(~self.o.valid | self.o.ready),
            line.en.eq(moves),
            line.addr.eq(context_place(searches, number, (seed >> in_group)[: exact_log2(groups)])),
            aside.en.eq(moves),
            aside.addr.eq(context_place(searches, number, Array(self.asides)[number])),
            self.taken.eq(Mux(moves, chosen, 0)),
            bundle.work.eq(Mux(again, Work.AGAIN, Work.SEED)),
            bundle.last.eq(1),
            bundle.index.eq(Mux(again, aside.data.index, 0)),
            bundle.mask.eq(1),
            bundle.vertices[0].eq(Mux(again, aside.data.vertex, line.data.word_select(lane, config.node_bits))),
        ]
        with m.If(moves):
            m.d.sync += [
                self.o.valid.eq(self.wants.any()),
                bundle.context.eq(number),
                again.eq(self.again.bit_select(number, 1)),
                lane.eq(seed & (config.lanes - 1)),
            ]
        return m
