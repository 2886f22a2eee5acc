"""Row walk: steps through the beats of one or two rows for a move (A7)."""

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.hdl import Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig, MoveKind

__all__ = ["RowStep", "RowWalk", "bank_depth", "half_row"]


def half_row(config: AttributeConfig) -> int:
    """Words of a bank that belong to one row: the even beats, or the odd ones."""
    return -(-config.row_beats // 2)


def bank_depth(config: AttributeConfig) -> int:
    """Words of a bank."""
    return config.rows * half_row(config)


class RowStep(data.StructLayout):
    """A step of a move, if ``valid``: a beat of the first row, and the beat beside it of the second.

    ``odd``: the beat of the first row is in the odd bank, that of the second in the even one. ``first``, ``second``:
    their addresses. ``swap``, ``copy``, ``read``: kind of the move; ``tag``: its tag. ``last``: its last step.
    """

    def __init__(self, config: AttributeConfig) -> None:
        address = range(bank_depth(config))
        kinds = {"swap": 1, "copy": 1, "read": 1, "tag": unsigned(config.tag_bits)}
        super().__init__({"valid": 1, "odd": 1, **kinds, "last": 1, "first": address, "second": address})


class RowWalk(wiring.Component):
    """Makes a step in every cycle: as many as a row has beats, for a swap rounded up to an even number.

    The next move is taken with the last step of a read, else when all writes of the last move are done.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    beats : In
        Beats of a row; constant while a move is under way.
    i : stream of ``config.move``
    draining : In(1)
        Steps of the last move are still to be written, so no move is taken.
    room : In(1)
        The next beat that is read can be kept.
    active : Out
        The last move that has been taken.
    walking : Out(1)
        It has further steps.
    step : Out
        `RowStep`.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "beats": In(range(config.row_beats + 1)),
                "i": In(stream.Signature(config.move)),
                "draining": In(1),
                "room": In(1),
                "active": Out(config.move),
                "walking": Out(1),
                "step": Out(RowStep(config)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count beats from the rows' first addresses."""
        m = Module()
        config, active, step, half = self.config, self.active, self.step, half_row(self.config)
        number, even = Signal(range(config.row_beats + 2)), Signal(range(config.row_beats + 2))
        first, second = Signal.like(step.first, name="first"), Signal.like(step.second, name="second")
        m.d.sync += even.eq(self.beats + self.beats[0])
        m.d.comb += [
            step.swap.eq(active.kind == MoveKind.SWAP),
            step.copy.eq(active.kind == MoveKind.COPY),
            step.read.eq(active.kind == MoveKind.READ),
            step.valid.eq(self.walking & (~step.read | self.room)),
            step.last.eq(number + 1 == Mux(step.swap, even, self.beats)),
            step.tag.eq(active.tag),
            step.odd.eq(number[0]),
            step.first.eq(first + number[1:]),
            step.second.eq(second + number[1:]),
            self.i.ready.eq(Mux(self.walking, step.valid & step.read & step.last, ~self.draining)),
        ]
        with m.If(step.valid):
            m.d.sync += number.eq(number + 1)
            with m.If(step.last):
                m.d.sync += self.walking.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                active.eq(self.i.payload),
                first.eq(self.i.payload.first * half),
                second.eq(self.i.payload.second * half),
                number.eq(0),
                self.walking.eq(1),
            ]
        m.d.sync += Cover(self.walking & step.read & ~self.room, "the compute units hold up a row")
        return m
