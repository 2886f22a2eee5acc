"""State pager: swaps pages of the node state with the external memory."""

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
        """Find a miss; write the old page back, read the new one."""
        m = Module()
        config, pages = self.config, self.pages
        frame_bits = exact_log2(config.frames)
        frames = range(config.frames)
        tags = Array(Signal(config.page_bits - frame_bits, name=f"tag{n}") for n in frames)
        known, changed = Signal(config.frames), Signal(config.frames)

        # Users that miss; a cycle later the chosen one and its page. The pointer advances with every fetched page.
        turn, lacks, lacked = Signal(range(self.users)), Signal(self.users), Signal(self.users)
        missing = Array(Signal(config.page_bits, name=f"missing{n}") for n in range(self.users))
        for n, page in enumerate(self.wanted):
            frame, here = page[:frame_bits], Signal(name=f"here{n}")
            m.d.comb += [
                here.eq(known.bit_select(frame, 1) & (tags[frame] == page[frame_bits:])),
                self.here[n].eq(here & ~self.moving),
                lacks[n].eq(self.wants[n] & ~here),
            ]
            m.d.sync += [lacked[n].eq(lacks[n]), missing[n].eq(page)]
            with m.If(self.writes[n]):
                m.d.sync += changed.bit_select(frame, 1).eq(1)
        later, user = lacked & Cat(turn <= n for n in range(self.users)), Signal(range(self.users))
        for n in reversed(range(self.users)):
            with m.If(Mux(later.any(), later[n], lacked[n])):
                m.d.comb += user.eq(n)

        # The new page, its frame, and the evicted page.
        chosen, page = Signal(range(self.users)), Signal(config.page_bits)
        frame = page[:frame_bits]
        at, asked = Signal(range(config.page_beats)), Signal(range(config.page_beats + 1))
        groups = config.banks // config.slots
        group_bits, row_bits = exact_log2(groups), exact_log2(config.page_rows)
        group, row = at[:group_bits], at[group_bits:]
        m.d.comb += self.place.eq(Cat(row[:row_bits], frame))

        slots = data.ArrayLayout(config.slot_bits, config.slots)
        out, beat = Signal(slots), data.View(slots, pages.beat.payload.data)
        held_bits = Held(config).size
        gone, line_beats = Signal(config.page_bits), LINE_BYTES * 8 // config.data_width
        m.d.comb += [
            gone.eq(Cat(frame, tags[frame])),
            pages.write.payload.address.eq(pages.base + Cat(at, gone)),
            pages.write.payload.data.eq(out),
            pages.write.payload.strobe.eq(~0),
            # Single lines do not cross a boundary of 4 KiB.
            pages.request.payload.address.eq(pages.base + Cat(asked[: len(at)], page)),
            pages.request.payload.length.eq(line_beats - 1),
        ]
        for slot in range(config.slots):
            of_group = Array(self.shown[slot :: config.slots][n].as_value() for n in range(groups))
            contents = data.View(Held(config), beat[slot][:held_bits])
            m.d.comb += [
                out[slot].eq(of_group[group]),
                self.contents[slot].eq(contents),
            ]
            with m.If(pages.beat.payload.error | self.failed):
                m.d.comb += self.contents[slot].word.kind.eq(Kind.DONE)
        for bank in range(config.banks):
            m.d.comb += self.put[bank].eq(pages.beat.valid & (group == bank // config.slots))

        last, silent = at == config.page_beats - 1, Signal(range(config.searches + 1))
        m.d.comb += self.busy.eq(1)
        with m.FSM():
            with m.State("WATCH"):
                m.d.comb += self.busy.eq(0)
                with m.If(lacks.any()):
                    m.next = "STOP"
            with m.State("STOP"):
                # The grant of the previous cycle writes in this one.
                m.d.comb += self.moving.eq(1)
                m.d.sync += [chosen.eq(user), page.eq(missing[user]), at.eq(0), asked.eq(0)]
                m.next = "LEAVE"
            with m.State("LEAVE"):
                # The first vertices of the evicted page are shown already.
                m.d.comb += self.moving.eq(1)
                m.d.sync += known.bit_select(frame, 1).eq(0)
                with m.If((known & changed).bit_select(frame, 1)):
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
                # A page may be read again as soon as it has been written.
                m.d.comb += self.moving.eq(1)
                with m.If(~pages.unwritten):
                    m.next = "READ"
                    with m.If(self.fresh):
                        m.next = "MAP"
            with m.State("READ"):
                m.d.comb += [self.moving.eq(1), pages.request.valid.eq(asked != config.page_beats)]
                with m.If(pages.request.valid & pages.request.ready):
                    m.d.sync += asked.eq(asked + line_beats)
                with m.If(pages.beat.valid):
                    m.d.sync += at.eq(at + 1)
                    with m.If(last):
                        m.next = "MAP"
            with m.State("MAP"):
                m.d.comb += self.moving.eq(1)
                m.d.sync += [
                    tags[frame].eq(page[frame_bits:]),
                    known.bit_select(frame, 1).eq(1),
                    changed.bit_select(frame, 1).eq(self.fresh),
                ]
                m.d.sync += silent.eq(0)
                m.next = "HOLD"
            with m.State("HOLD"):
                # Held until the user is served or withdraws: an engine's searches ask in turn.
                asks = self.wants.bit_select(chosen, 1) & (Array(self.wanted)[chosen] == page)
                m.d.sync += silent.eq(Mux(asks, 0, silent + 1))
                with m.If((silent == config.searches) | self.served.bit_select(chosen, 1)):
                    m.d.sync += turn.eq(Mux(chosen == self.users - 1, 0, chosen + 1))
                    m.next = "WATCH"
        with m.If(self.clear):
            m.d.sync += known.eq(0)
        m.d.sync += [
            Cover(pages.write.valid & last, "a page was written back"),
            Cover(self.moving & (lacks.any() & (lacks & (lacks - 1)).any()), "several lack a page"),
        ]
        return m
