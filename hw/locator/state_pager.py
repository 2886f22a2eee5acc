"""State pager: swaps pages of the node state with the external memory."""

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import LINE_BYTES
from hw.locator.config import LocatorConfig
from hw.locator.formats import Kind
from hw.locator.state_bank import Held
from hw.memory.formats import ReadBeat, ReadRequest, WriteRequest, beat_address_width

__all__ = ["PagesSignature", "StatePager"]


class PagesSignature(wiring.Signature):
    """Ports to the external memory, seen from the pager.

    Members
    -------
    base
        Address of the first page, in beats; constant during a run.
    request, beat
        Client of the read arbiter.
    write, unwritten
        Beats to write; write responses are outstanding, from the cycle after a beat.
    """

    def __init__(self, config: LocatorConfig) -> None:
        widths = (config.address_width, config.data_width)
        super().__init__(
            {
                "base": In(beat_address_width(*widths)),
                "request": Out(stream.Signature(ReadRequest(*widths))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
                "write": Out(stream.Signature(WriteRequest(*widths))),
                "unwritten": In(1),
            }
        )


class _Frames(NamedTuple):
    """Places for pages on the chip: upper bits of the page's number, whether it is there, whether it was written to."""

    tags: Array
    known: Signal
    changed: Signal


class _Search(NamedTuple):
    """Users that lack a page, the one that is next in `turn`, and the pages of the previous cycle."""

    turn: Signal
    lacks: Signal
    user: Signal
    missing: Array


class StatePager(wiring.Component):
    """Keeps which pages are on the chip, direct-mapped to frames, and fetches missing ones.

    A user that misses waits. Missed pages are fetched in round-robin order of their users, and a page stays until its
    user has been served, so every user is served. Clean pages are not written back.

    Parameters
    ----------
    config
        Sizes.
    users
        Number of users.

    Attributes
    ----------
    clear
        Invalidate all pages, at the start of a run.
    fresh
        Missing pages are empty so far and are not read.
    failed
        The memory has failed. Vertices read from then on, and those of a failed read, count as members of a community,
        so that no search starts from or waits for invalid data.
    wants, wanted
        For each user: whether it wants a page, and the page's number.
    served, writes
        For each user: it is served in this cycle; it writes to the page.
    here
        For each user: its page is on the chip. Low for all during a swap.
    busy
        A page is swapped, or held for a user.
    moving, place
        The banks are read and written at ``place``.
    shown
        Vertices of all banks at the previous cycle's ``place``.
    put, contents
        Banks to write, and their contents, by the number of the bank modulo ``config.slots``.
    pages
        To the external memory.
    """

    def __init__(self, config: LocatorConfig, users: int) -> None:
        self.config, self.users = config, users
        self._line_beats = LINE_BYTES * 8 // config.data_width
        super().__init__(
            {
                "clear": In(1),
                "fresh": In(1),
                "failed": In(1),
                "wants": In(users),
                "wanted": In(config.page_bits).array(users),
                "served": In(users),
                "writes": In(users),
                "here": Out(users),
                "busy": Out(1),
                "moving": Out(1),
                "place": Out(range(config.depth)),
                "shown": In(Held(config)).array(config.banks),
                "put": Out(config.banks),
                "contents": Out(Held(config)).array(config.slots),
                "pages": Out(PagesSignature(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Find a user that lacks a page, exchange beats with the banks, and move pages in and out."""
        m = Module()
        config = self.config
        frames = _Frames(
            Array(Signal(config.page_bits - exact_log2(config.frames), name=f"tag{n}") for n in range(config.frames)),
            Signal(config.frames, name="known"),
            Signal(config.frames, name="changed"),
        )
        search = self._find(m, frames)
        page = Signal(config.page_bits)
        at, asked = Signal(range(config.page_beats)), Signal(range(config.page_beats + 1))
        self._exchange(m, frames, page, at, asked)
        self._move(m, frames, search, page, at, asked)
        with m.If(self.clear):
            m.d.sync += frames.known.eq(0)
        return m

    def _find(self, m: Module, frames: _Frames) -> _Search:
        """Compare the pages of all users with the frames; a cycle later select, in turn, one that lacks its page."""
        frame_bits = exact_log2(self.config.frames)
        turn, lacks, lacked = Signal(range(self.users)), Signal(self.users), Signal(self.users)
        missing = Array(Signal(self.config.page_bits, name=f"missing{n}") for n in range(self.users))
        for n, page in enumerate(self.wanted):
            frame, here = page[:frame_bits], Signal(name=f"here{n}")
            m.d.comb += [
                here.eq(frames.known.bit_select(frame, 1) & (frames.tags[frame] == page[frame_bits:])),
                self.here[n].eq(here & ~self.moving),
                lacks[n].eq(self.wants[n] & ~here),
            ]
            m.d.sync += [lacked[n].eq(lacks[n]), missing[n].eq(page)]
            with m.If(self.writes[n]):
                m.d.sync += frames.changed.bit_select(frame, 1).eq(1)
        later, user = lacked & Cat(turn <= n for n in range(self.users)), Signal(range(self.users))
        for n in reversed(range(self.users)):
            with m.If(Mux(later.any(), later[n], lacked[n])):
                m.d.comb += user.eq(n)
        m.d.sync += Cover(self.moving & (lacks.any() & (lacks & (lacks - 1)).any()), "several lack a page")
        return _Search(turn, lacks, user, missing)

    def _exchange(self, m: Module, frames: _Frames, page: Signal, at: Signal, asked: Signal) -> None:
        """Connect the banks with the memory: beat `at` of the page that leaves or arrives, reads from beat `asked`."""
        config, pages = self.config, self.pages
        frame = page[: exact_log2(config.frames)]
        groups = config.banks // config.slots
        group_bits, row_bits = exact_log2(groups), exact_log2(config.page_rows)
        group, row = at[:group_bits], at[group_bits:]
        slots = data.ArrayLayout(config.slot_bits, config.slots)
        out, beat = Signal(slots), data.View(slots, pages.beat.payload.data)
        gone = Signal(config.page_bits)
        m.d.comb += [
            self.place.eq(Cat(row[:row_bits], frame)),
            gone.eq(Cat(frame, frames.tags[frame])),
            pages.write.payload.address.eq(pages.base + Cat(at, gone)),
            pages.write.payload.data.eq(out),
            pages.write.payload.strobe.eq(~0),
            # Reads of single lines do not cross 4 KiB.
            pages.request.payload.address.eq(pages.base + Cat(asked[: len(at)], page)),
            pages.request.payload.length.eq(self._line_beats - 1),
        ]
        for slot in range(config.slots):
            of_group = Array(self.shown[slot :: config.slots][n].as_value() for n in range(groups))
            contents = data.View(Held(config), beat[slot][: Held(config).size])
            m.d.comb += [
                out[slot].eq(of_group[group]),
                self.contents[slot].eq(contents),
            ]
            with m.If(pages.beat.payload.error | self.failed):
                m.d.comb += self.contents[slot].word.kind.eq(Kind.DONE)
        for bank in range(config.banks):
            m.d.comb += self.put[bank].eq(pages.beat.valid & (group == bank // config.slots))

    def _move(self, m: Module, frames: _Frames, search: _Search, page: Signal, at: Signal, asked: Signal) -> None:
        """Write the frame's page back if it has changed, read the missing page, hold it until it has been used."""
        config, pages = self.config, self.pages
        frame = page[: exact_log2(config.frames)]
        chosen = Signal(range(self.users))
        last, silent = at == config.page_beats - 1, Signal(range(config.searches + 1))
        m.d.comb += self.busy.eq(1)
        with m.FSM():
            with m.State("WATCH"):
                m.d.comb += self.busy.eq(0)
                with m.If(search.lacks.any()):
                    m.next = "STOP"
            with m.State("STOP"):
                # Accesses granted in the previous cycle are written in this one.
                m.d.comb += self.moving.eq(1)
                m.d.sync += [chosen.eq(search.user), page.eq(search.missing[search.user]), at.eq(0), asked.eq(0)]
                m.next = "LEAVE"
            with m.State("LEAVE"):
                # The banks already show the first vertices of the page that leaves.
                m.d.comb += self.moving.eq(1)
                m.d.sync += frames.known.bit_select(frame, 1).eq(0)
                with m.If((frames.known & frames.changed).bit_select(frame, 1)):
                    m.next = "WRITE"
                with m.Elif(pages.unwritten):
                    m.next = "SETTLE"
                with m.Elif(self.fresh):
                    m.next = "MAP"
                with m.Else():
                    m.next = "READ"
            with m.State("SHOW"):
                m.d.comb += self.moving.eq(1)
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [self.moving.eq(1), pages.write.valid.eq(1)]
                with m.If(pages.write.ready):
                    m.d.sync += at.eq(Mux(last, 0, at + 1))
                    m.next = "SHOW"
                    with m.If(last):
                        m.next = "SETTLE"
            with m.State("SETTLE"):
                # A page may be read again right after it was written.
                m.d.comb += self.moving.eq(1)
                with m.If(~pages.unwritten):
                    m.next = "READ"
                    with m.If(self.fresh):
                        m.next = "MAP"
            with m.State("READ"):
                m.d.comb += [self.moving.eq(1), pages.request.valid.eq(asked != config.page_beats)]
                with m.If(pages.request.valid & pages.request.ready):
                    m.d.sync += asked.eq(asked + self._line_beats)
                with m.If(pages.beat.valid):
                    m.d.sync += at.eq(at + 1)
                    with m.If(last):
                        m.next = "MAP"
            with m.State("MAP"):
                m.d.comb += self.moving.eq(1)
                m.d.sync += [
                    frames.tags[frame].eq(page[len(frame) :]),
                    frames.known.bit_select(frame, 1).eq(1),
                    frames.changed.bit_select(frame, 1).eq(self.fresh),
                ]
                m.d.sync += silent.eq(0)
                m.next = "HOLD"
            with m.State("HOLD"):
                # Until the user has been served, or does not request the page: searches of an engine request in turn.
                asks = self.wants.bit_select(chosen, 1) & (Array(self.wanted)[chosen] == page)
                m.d.sync += silent.eq(Mux(asks, 0, silent + 1))
                with m.If((silent == config.searches) | self.served.bit_select(chosen, 1)):
                    m.d.sync += search.turn.eq(Mux(chosen == self.users - 1, 0, chosen + 1))
                    m.next = "WATCH"
        m.d.sync += Cover(pages.write.valid & last, "a page was written back")
