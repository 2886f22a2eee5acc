"""Proof of the row store: one symbolic beat of one symbolic row is always what the moves so far make it."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.attributes.formats import AttributeConfig, MoveKind
from hw.attributes.row_store import RowStore
from sim.harness.formal import Proof, assert_stream, assume_stream


def config(beats: int) -> AttributeConfig:
    """Return three rows of so many beats."""
    return AttributeConfig(slots=2, ways=1, row_beats=beats, id_bits=4, data_width=64, tag_bits=1)


class RowStoreSpec(Elaboratable):
    """One word of data is marked; where it is follows from the moves, and reads of that place must bring it.

    Parameters
    ----------
    config
        Sizes.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config

    def elaborate(self, platform: Any) -> Module:
        """Fill and move at will; a read of the marked row's beat must show the mark."""
        m = Module()
        config = self.config
        m.submodules.dut = dut = RowStore(config)
        move, fill = dut.i.payload, dut.fill.payload
        beat, mark = Signal(range(config.row_beats)), Signal(config.data_width)
        row, there = Signal(range(config.rows)), Signal()
        m.d.comb += [
            beat.eq(AnyConst(len(beat))),
            mark.eq(AnyConst(config.data_width)),
            dut.beats.eq(config.row_beats),
            Assume(beat < config.row_beats),
            dut.i.valid.eq(AnySeq(1)),
            move.kind.eq(AnySeq(2)),
            move.first.eq(AnySeq(len(move.first))),
            move.second.eq(AnySeq(len(move.second))),
            move.tag.eq(AnySeq(1)),
            Assume((move.first < config.rows) & (move.second < config.rows) & (move.first != move.second)),
            Assume(move.kind.as_value() != 3),
            dut.rows.ready.eq(AnySeq(1)),
            dut.fill.valid.eq(AnySeq(1)),
            fill.row.eq(AnySeq(len(fill.row))),
            fill.beat.eq(AnySeq(len(fill.beat))),
            fill.data.eq(AnySeq(config.data_width)),
            Assume((fill.row < config.rows) & (fill.beat < config.row_beats)),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.rows, "rows")
        moves, filled = Signal(), Signal()
        touched = (dut.active.first == fill.row) | (
            (dut.active.second == fill.row) & (dut.active.kind != MoveKind.READ)
        )
        m.d.comb += [
            moves.eq(dut.i.valid & dut.i.ready),
            filled.eq(dut.fill.valid & dut.fill.ready),
            # Nothing is filled that takes part in a move, now or from this cycle on.
            Assume(~(dut.fill.valid & dut.busy & touched)),
            Assume(~(dut.fill.valid & dut.i.valid & ((move.first == fill.row) | (move.second == fill.row)))),
        ]
        swaps = move.kind == MoveKind.SWAP
        with m.If(moves & there):
            with m.If(swaps & (move.first == row)):
                m.d.sync += row.eq(move.second)
            with m.Elif(swaps & (move.second == row)):
                m.d.sync += row.eq(move.first)
            with m.Elif((move.kind == MoveKind.COPY) & (move.second == row)):
                m.d.sync += there.eq(0)
        with m.If(filled & (fill.beat == beat)):
            with m.If(fill.data == mark):
                m.d.sync += [there.eq(1), row.eq(fill.row)]
            with m.Elif(fill.row == row):
                m.d.sync += there.eq(0)
        # Rows being read, oldest first: whether each was the marked one as its read began; next beat of the oldest.
        marked, reads, number, last_swapped = Signal(8), Signal(range(9)), Signal(range(config.row_beats)), Signal()
        begins, ends, reading = Signal(), Signal(), Signal()
        m.d.comb += [
            begins.eq(moves & (move.kind == MoveKind.READ)),
            ends.eq(dut.rows.valid & dut.rows.ready & dut.rows.payload.last),
            Assume(~begins | (reads < 8)),
            reading.eq(marked[0]),
        ]
        m.d.sync += [
            reads.eq(reads + begins - ends),
            marked.eq((marked >> ends) | ((begins & there & (move.first == row)) << (reads - ends)[:3])),
        ]
        with m.If(dut.rows.valid):
            m.d.comb += Assert(reads != 0)
        with m.If(dut.rows.valid & dut.rows.ready):
            m.d.sync += number.eq(Mux(dut.rows.payload.last, 0, number + 1))
        # Nothing is stuck: where rows are taken as they come, a move waits no longer than the one before it takes.
        waited = Signal(range(32))
        m.d.sync += waited.eq(0)
        with m.If(dut.i.valid & ~dut.i.ready & dut.rows.ready & (waited != 31)):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += Assert(waited <= config.row_beats + 3)
        with m.If(moves & swaps):
            m.d.sync += last_swapped.eq(1)
        with m.If(dut.rows.valid):
            m.d.comb += Assert(dut.rows.payload.last == (number == config.row_beats - 1))
            with m.If(reading & (number == beat)):
                m.d.comb += Assert(dut.rows.payload.data == mark)
        m.d.comb += [
            Cover(dut.rows.valid & reading & (number == beat) & last_swapped),
            Cover(dut.rows.valid & ~dut.rows.ready & dut.fill.valid & dut.fill.ready),
            Cover(begins & dut.busy & reading),
        ]
        return m


def _even() -> RowStoreSpec:
    return RowStoreSpec(config(2))


def _odd() -> RowStoreSpec:
    return RowStoreSpec(config(3))


def _long() -> RowStoreSpec:
    # Longer than the queue of what has been read, so that a row can be held up.
    return RowStoreSpec(config(5))


PROOFS = [
    Proof("moves_keep_every_beat_of_two", _even, "bmc", 10),
    Proof("moves_keep_every_beat_of_three", _odd, "bmc", 12, quick=False),
    Proof("swaps_and_reads", _long, "cover", 24),
]
