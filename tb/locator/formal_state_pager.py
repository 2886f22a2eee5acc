"""Proof of the pager: whoever is let through meets what was last written, wherever it has been meanwhile."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Module, Signal, Value
from amaranth.lib import data
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.formats import Kind
from hw.locator.state_bank import Held
from hw.locator.state_pager import StatePager
from sim.harness.formal import Proof

_CONFIG = LocatorConfig(engines=1, searches=2, lanes=1, nodes=64, window=32, page=16, edges=64, banks=8, tag_bits=6)
_USERS = 2
_BITS = Held(_CONFIG).size


def followed(contents: Any) -> Value:
    """Return the bits of a vertex that are followed: its kind and one of its row; all go the same way."""
    bits = Value.cast(contents)
    return Cat(bits[:2], bits[_BITS - 1])


class PagerSpec(Elaboratable):
    """One vertex, any of them, is followed: in its bank, on its way, and in the external memory."""

    def elaborate(self, platform: Any) -> Module:
        """Drive users and memory freely."""
        m = Module()
        config = _CONFIG
        m.submodules.dut = dut = StatePager(config, _USERS)
        in_page, bits = exact_log2(config.page), 3

        vertex = Signal(config.node_bits)
        m.d.comb += vertex.eq(AnyConst(config.node_bits))
        bank, page = vertex[: config.bank_bits], vertex[in_page:]
        place = vertex[config.bank_bits :][: len(dut.place)]
        frame = page[: exact_log2(config.frames)]

        for n in range(_USERS):
            m.d.comb += [
                dut.wants[n].eq(AnySeq(1)),
                dut.wanted[n].eq(AnySeq(config.page_bits)),
                dut.served[n].eq(dut.wants[n] & dut.here[n] & AnySeq(1)),
                dut.writes[n].eq(dut.served[n] & AnySeq(1)),
            ]
        # The bank: what stands at the vertex's place, its own or that of the page that shares the frame.
        local, shown_place = Signal(bits), Signal.like(dut.place)
        # What was written to the vertex last, once something was.
        truth, known = Signal(bits), Signal()
        new = AnySeq(bits)
        m.d.sync += shown_place.eq(dut.place)
        for n in range(config.banks):
            m.d.comb += dut.shown[n].eq(AnySeq(_BITS))
            with m.If((bank == n) & (shown_place == place)):
                m.d.comb += Assume(followed(dut.shown[n]) == local)
        slot_of_bank = Signal(bits)
        for n in range(config.slots):
            with m.If(bank % config.slots == n):
                m.d.comb += slot_of_bank.eq(followed(dut.contents[n]))
        with m.If(dut.put.bit_select(bank, 1) & (dut.place == place)):
            m.d.sync += local.eq(slot_of_bank)
        meets = Signal(_USERS)
        for n in range(_USERS):
            m.d.comb += meets[n].eq(dut.here[n] & (dut.wanted[n] == page))
            with m.If(dut.writes[n] & (dut.wanted[n][: len(frame)] == frame)):
                m.d.sync += local.eq(new)
                with m.If(dut.wanted[n] == page):
                    m.d.sync += [truth.eq(new), known.eq(1)]
        # Two users do not write in one cycle here: banks are the arbiter's.
        m.d.comb += Assume((dut.writes & (dut.writes - 1)) == 0)

        # The external memory, of which the vertex's beat is followed.
        pages = dut.pages
        beat = Signal(len(pages.write.payload.address))
        m.d.comb += beat.eq(vertex[exact_log2(config.slots) :])
        # A read that overtakes a write brings anything.
        stored, waiting, trusted = Signal(bits), Signal(), Signal()
        slots = data.ArrayLayout(config.slot_bits, config.slots)
        written, brought = data.View(slots, pages.write.payload.data), data.View(slots, pages.beat.payload.data)
        of_slot, of_beat = Signal(bits), Signal(bits)
        for n in range(config.slots):
            with m.If(bank % config.slots == n):
                m.d.comb += [of_slot.eq(followed(written[n])), of_beat.eq(followed(brought[n]))]
        line = 512 // config.data_width
        left, at = Signal(8), Signal.like(beat)
        m.d.comb += [
            pages.base.eq(0),
            pages.write.ready.eq(AnySeq(1)),
            pages.unwritten.eq(waiting & AnySeq(1)),
            pages.request.ready.eq((left == 0) & AnySeq(1)),
            pages.beat.valid.eq((left != 0) & AnySeq(1)),
            pages.beat.payload.data.eq(AnySeq(config.data_width)),
            pages.beat.payload.error.eq(AnySeq(1)),
            Assume((at != beat) | ~trusted | (of_beat == stored)),
            dut.fresh.eq(AnySeq(1)),
            # A page that holds nothing yet may be taken for new only until something was written to it.
            Assume(~dut.fresh | ~known),
            dut.failed.eq(0),
            dut.clear.eq(0),
        ]
        m.d.sync += waiting.eq((pages.write.valid & pages.write.ready) | pages.unwritten)
        with m.If(pages.write.valid & pages.write.ready & (pages.write.payload.address == beat)):
            m.d.sync += stored.eq(of_slot)
        with m.If(pages.request.valid & pages.request.ready):
            m.d.sync += [left.eq(line), at.eq(pages.request.payload.address), trusted.eq(~pages.unwritten)]
            m.d.comb += Assert(pages.request.payload.length == line - 1)
        with m.If(pages.beat.valid):
            m.d.sync += [left.eq(left - 1), at.eq(at + 1)]
        # From the first failed beat on, only that the vertex is in a community.
        spoilt = Signal()
        with m.If(pages.beat.valid & pages.beat.payload.error & (at == beat)):
            m.d.sync += spoilt.eq(1)

        gone, returned = Signal(), Signal()
        with m.If(known & pages.write.valid & (pages.write.payload.address == beat)):
            m.d.sync += gone.eq(1)
        with m.If(gone & pages.beat.valid & (at == beat)):
            m.d.sync += returned.eq(1)
        for n in range(_USERS):
            with m.If(meets[n] & known & ~spoilt):
                m.d.comb += Assert(local == truth)
        # A page that was there when the exchange began is not fetched: somebody else's was missing.
        had = Signal()
        with m.If(~dut.moving):
            m.d.sync += had.eq(meets.any())
        fetched = pages.request.payload.address[exact_log2(config.page_beats) :]
        m.d.comb += [
            Assert(~(pages.request.valid & had & (fetched == page))),
            Cover(gone),
            Cover(returned & meets.any() & ~spoilt),
            Cover(spoilt & meets.any() & (local[:2] == Kind.DONE)),
        ]
        return m


PROOFS = [
    Proof("users_meet_what_was_written", PagerSpec, mode="bmc", depth=27),
    Proof("users_meet_what_was_written_for_longer", PagerSpec, mode="bmc", depth=29, quick=False),
    Proof("a_vertex_leaves_and_returns", PagerSpec, mode="cover", depth=40),
]
