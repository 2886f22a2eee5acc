"""Step source: puts the steps of records in order, and makes those of a record of one node itself (I7)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import CommunityConfig

__all__ = ["StepSource"]


class StepSource(wiring.Component):
    """Passes on the steps of a planned record; those of any other record need no plan.

    In a record of one node, all hubs are joined to it, and no two columns share more than its row. So its vector is
    added to the last row, whose sum is forwarded to all hubs, then to its own row if its bit is set, and each hub's
    vector to its row. Nothing is added to the row of a node that is not wanted.

    The last row comes first: steps to the same row follow each other, so that none waits until a sum is written.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    i : stream of ``config.read_record``
        Records in order.
    steps : stream of ``config.step``
        Steps of planned records, each up to its ``last`` one.
    o : stream of ``config.record_step``
        Steps of all records; a record that is not planned ends with its last operation, if it has any.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.read_record)),
                "steps": In(stream.Signature(config.step)),
                "o": Out(stream.Signature(config.record_step)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the record under way; count through its columns unless it is planned."""
        m = Module()
        record, busy, step = Signal(self.config.read_record, reset_less=True), Signal(), self.o.payload.step
        # The first step is to come; the column to add next; a record's last row, that of the last hub.
        first, column, last_row = Signal(), Signal(self.config.row_bits), Signal(self.config.row_bits)
        moves, leaves, hubs = Signal(), Signal(), Signal()
        m.d.comb += [
            hubs.eq(last_row != 0),
            self.o.valid.eq(busy & (self.steps.valid | ~record.planned)),
            self.steps.ready.eq(busy & record.planned & self.o.ready),
            *(self.o.payload.record[name].eq(record[name]) for name in self.config.record.members),
            moves.eq(self.o.valid & self.o.ready),
            leaves.eq(moves & step.last),
            self.i.ready.eq(~busy | leaves),
        ]
        with m.If(record.planned):
            m.d.comb += step.eq(self.steps.payload)
        with m.Else():
            m.d.comb += [
                step.active.eq(~first | hubs | record.own),
                step.last.eq(Mux(first, ~hubs | ~record.wanted, column == last_row)),
                step.row.eq(Mux(first, last_row, 0)),
                step.right.eq(column),
            ]
        with m.If(moves):
            # Column 0 is added to its own row as well, if that is joined to itself.
            m.d.sync += [first.eq(0), column.eq(column + ~(first & record.own))]
        with m.If(self.i.ready):
            m.d.sync += [record.eq(self.i.payload), busy.eq(self.i.valid), first.eq(1), column.eq(0)]
            m.d.sync += last_row.eq(self.i.payload.rows - 1)
        m.d.sync += [
            Cover(leaves & ~record.planned & ~step.active, "a record without operations"),
            Cover(leaves & ~record.planned & first & hubs, "a node that is not wanted has hubs"),
            Cover(leaves & record.planned & self.i.valid & ~self.i.payload.planned, "one node behind several"),
            Cover(busy & ~record.planned & self.steps.valid, "steps of the next planned record wait"),
        ]
        return m
