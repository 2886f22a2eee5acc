"""Halo gate: holds rows of other chiplets' vertices back until they have come round the ring (I9, R14)."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.community.combined_reader import CombinedRow
from hw.community.formats import CommunityConfig
from hw.ring.formats import OWNERS, HaloRows
from hw.stream.arbiter import merge
from hw.stream.queue import Queue

__all__ = ["HaloGate"]

_WORD_BITS = 32
#: Rows that have left the queue and may come back, and those that come before its level shows it.
_STAGES = 5


class HaloGate(wiring.Component):
    """Passes own rows on; rows of others are put aside, and leave as soon as they can be read.

    What is put aside circulates, a row a cycle, so that none waits for another one, and holds nobody up as long as
    there is room. Rows are told apart by where they lie, so it does not matter how the vertices of a tile are numbered.

    Parameters
    ----------
    config : CommunityConfig
    address_width
        Of the memory port, in bits.
    depth
        Rows that can be put aside, at least 10.

    Attributes
    ----------
    halo : In(HaloRows)
        While it is ``going`` limits only rise. It begins before there are rows. What is known stays until it ends.
    i, o : streams of `CombinedRow`
        Rows to fetch.

    Raises
    ------
    ValueError
        If `depth` is below 10.
    """

    def __init__(self, config: CommunityConfig, address_width: int = 32, depth: int = 512) -> None:
        if depth < 2 * _STAGES:
            raise ValueError(f"depth must be at least {2 * _STAGES}, not {depth!r}")
        self.config, self.address_width, self.depth = config, address_width, depth
        self._row = CombinedRow(config, address_width)
        super().__init__(
            {
                "halo": In(HaloRows(address_width, config.data_width)),
                "i": In(stream.Signature(self._row)),
                "o": Out(stream.Signature(self._row)),
            }
        )

    def _beat(self, row: Any) -> Any:
        """Return the address of the first beat of a row."""
        return row.range.address >> exact_log2(self.config.data_width // _WORD_BITS)

    def elaborate(self, platform: object) -> Module:
        """Put rows aside; find out whose the first one is and whether it can be read; put it back if it cannot yet."""
        m = Module()
        halo, here = self.halo, stream.Signature(self._row).create(path=("here",))
        m.submodules.aside = aside = Queue(self._row, self.depth, storage="block")
        late, can, room, back, new, turn = (
            Signal(name=name) for name in ("late", "can", "room", "back", "new", "turn")
        )
        # Stages behind what is aside: whose rows begin at or before this one, whose it is, and whether it is there.
        compared, known, judged = (
            stream.Signature(self._row).create(path=(name,)) for name in ("compared", "known", "judged")
        )
        begun, owner, beat = Signal(OWNERS), Signal(range(OWNERS)), Signal(len(halo.starts[0]))
        there, readable = Signal(), stream.Signature(self._row).create(path=("readable",))
        m.d.comb += [
            late.eq(halo.going & ~self.i.payload.own),
            new.eq(self.i.valid & late & room & ~turn),
            back.eq(judged.valid & ~there & ~new),
            aside.i.payload.eq(Mux(new, self.i.payload, judged.payload)),
            aside.i.valid.eq(new | back),
            here.payload.eq(self.i.payload),
            here.valid.eq(self.i.valid & ~late),
            self.i.ready.eq(Mux(late, room & ~turn, here.ready)),
            can.eq(~halo.going | halo.known),
            beat.eq(self._beat(aside.o.payload)),
            readable.payload.eq(judged.payload),
            readable.valid.eq(judged.valid & there),
            judged.ready.eq(~judged.valid | Mux(there, readable.ready, ~new)),
            known.ready.eq(~known.valid | judged.ready),
            compared.ready.eq(~compared.valid | known.ready),
            # Whose a row is can be said once it is known where those of each chiplet begin.
            aside.o.ready.eq(can & compared.ready),
        ]
        # What circulates and had no place in this cycle has one in the next, so it goes on, too.
        m.d.sync += [room.eq(aside.level < self.depth - _STAGES), turn.eq(new & judged.valid & ~there)]
        with m.If(compared.ready):
            m.d.sync += [
                compared.valid.eq(aside.o.valid & can),
                compared.payload.eq(aside.o.payload),
                begun.eq(Cat(start <= beat for start in halo.starts)),
            ]
        with m.If(known.ready):
            # Starts ascend; of equal ones the last one's chiplet has rows.
            m.d.sync += [
                known.valid.eq(compared.valid),
                known.payload.eq(compared.payload),
                owner.eq(sum(begun[n] for n in range(1, OWNERS))),
            ]
        with m.If(judged.ready):
            m.d.sync += [
                judged.valid.eq(known.valid),
                judged.payload.eq(known.payload),
                # One that comes to be there later goes round once more.
                there.eq(
                    ~halo.going
                    | (owner == halo.own)
                    | (self._beat(known.payload) < Array(limit for limit in halo.limits)[owner])
                ),
            ]
        rows, passes, _ = merge(m, "rows", [readable, here], self._row)
        m.d.comb += [self.o.payload.eq(passes), self.o.valid.eq(rows.valid), rows.ready.eq(self.o.ready)]
        m.d.sync += [
            Assert(~aside.i.valid | aside.i.ready, "what is put aside has a place"),
            Cover(judged.valid & ~there & here.valid & here.ready, "an own row overtakes"),
            Cover(readable.valid & readable.ready & halo.going, "a row is there while others come"),
        ]
        return m
