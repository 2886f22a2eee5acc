"""Hub sums: adds partial sums of hubs up, and sends the sums that are complete to the row finishers (I8)."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import PARTIAL_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.filler import kept_scale, own_chunk
from hw.community.formats import HubConfig
from hw.community.multi_read_memory import read_signature
from hw.community.row_sender import keep_ends
from hw.stream.slice import Slice

__all__ = ["HubSums", "addition"]


def addition(config: HubConfig, part_bits: int, owed_bits: int) -> data.StructLayout:
    """Layout of a chunk of a partial sum of a record and its place, by slot and chunk; ``last``: of its row.

    ``vectors``: what the sum is made of.
    """
    return data.StructLayout(
        {
            "place": range(config.slots * config.chunks),
            "data": data.ArrayLayout(signed(part_bits), config.lanes),
            "last": 1,
            "vectors": owed_bits,
        }
    )


class HubSums(wiring.Component):
    """One pipeline for additions and for sums that leave: read, wait a cycle, add and write or send.

    A sum that is not taken holds up additions behind it. An addition waits for an earlier one to the same place.

    Parameters
    ----------
    config : HubConfig
    owed_bits
        Bits of the number of vectors in a sum; larger numbers begin again.
    part_bits
        Bits of an element of a partial sum.

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are hubs.
    vertex : stream of ``config.request``, always ready
    scale : stream of `kept_scale`, always ready
    own : stream of `own_chunk`, always ready
        Data of each row for its end.
    clear : stream of ``range(slots * chunks)``
        Places whose sums, and the number of their slot, begin at 0.
    add : stream of `addition`
    send : stream of ``range(slots)``
        Hubs whose sums are complete.
    added : read port
        Number of vectors that were added to a slot, in partial sums of which the last chunk has been.
    finish : stream of ``config.finish_chunk``
    busy : Out(1)
        Additions or sums are on their way.
    """

    def __init__(self, config: HubConfig, owed_bits: int, part_bits: int = PARTIAL_BITS) -> None:
        self.config, self.owed_bits, self.part_bits = config, owed_bits, part_bits
        self.places = config.slots * config.chunks
        super().__init__(
            {
                "settings": In(config.settings),
                "vertex": In(stream.Signature(config.request, always_ready=True)),
                "scale": In(stream.Signature(kept_scale(config), always_ready=True)),
                "own": In(stream.Signature(own_chunk(config), always_ready=True)),
                "clear": In(stream.Signature(range(self.places))),
                "add": In(stream.Signature(addition(config, part_bits, owed_bits))),
                "send": In(stream.Signature(range(config.slots))),
                "added": In(read_signature(owed_bits, config.slots)),
                "finish": Out(stream.Signature(config.finish_chunk)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Take an addition, or else a chunk to send; an addition writes where it has read two cycles before.

        One to the place of the addition right before it gets that one's result.
        """
        m = Module()
        config, add = self.config, self.add.payload
        # The search for complete hubs does not wait for the finisher in the same cycle.
        m.submodules.sends = complete = Slice(self.send.payload.shape())
        connect(m, flipped(self.send), complete.i)
        send = complete.o
        step = data.StructLayout({**self.add.payload.shape().members, "valid": 1, "sends": 1, "near": 1})
        second, third = (Signal(step, name=name) for name in ("second", "third"))
        chunk, ends, takes, sends = Signal(range(config.chunks)), Signal(), Signal(), Signal()
        stalled, same, near = Signal(), Signal(), Signal()
        # Additions first, but a row that has begun goes on: others wait for the finisher until it is there as a whole.
        within, adds_first = Signal(), Signal()
        place = Mux(adds_first, add.place, Cat(chunk, send.payload))
        m.d.comb += [
            stalled.eq(third.valid & third.sends & ~self.finish.ready),
            near.eq(second.valid & ~second.sends & (second.place == add.place)),
            same.eq(third.valid & ~third.sends & (third.place == add.place) & ~near),
            within.eq(chunk != 0),
            adds_first.eq(self.add.valid & ~within),
            takes.eq(adds_first & ~same & ~stalled),
            sends.eq(send.valid & ~adds_first & ~stalled),
            ends.eq(chunk == self.settings.last_chunk),
            self.add.ready.eq(~within & ~same & ~stalled),
            send.ready.eq(sends & ends),
            self.busy.eq(send.valid | second.valid | third.valid),
        ]
        with m.If(sends):
            m.d.sync += chunk.eq(Mux(ends, 0, chunk + 1))
        with m.If(~stalled):
            m.d.sync += [
                second.valid.eq(takes | sends),
                second.sends.eq(sends),
                second.near.eq(near & takes),
                second.place.eq(place),
                second.data.eq(add.data),
                second.vectors.eq(add.vectors),
                second.last.eq(Mux(sends, ends, add.last)),
                third.eq(second),
            ]
        summed = self._sums(m, place, second, third, stalled)

        slot_at = exact_log2(config.chunks)
        vid, scale, own = keep_ends(m, self, ~stalled, place[slot_at:], place)
        finish, ended = self.finish.payload, Signal(config.finish_chunk, reset_less=True)
        with m.If(~stalled):
            m.d.sync += [
                ended.vid.eq(vid),
                ended.mantissa.eq(scale.mantissa),
                ended.exponent.eq(scale.exponent),
                ended.own.eq(own),
            ]
        m.d.comb += [
            self.finish.valid.eq(third.valid & third.sends),
            finish.eq(ended),
            finish.chunk.eq(third.place),
            finish.sums.eq(summed),
            finish.last.eq(third.last),
        ]
        m.d.sync += [
            Cover(self.add.valid & same, "an addition waits for one to the same place"),
            Cover(takes & near, "an addition follows one to the same place"),
            Cover(stalled & self.add.valid, "an addition waits for a sum that leaves"),
            Cover(self.clear.valid & ~self.clear.ready, "a row waits for an addition"),
        ]
        return m

    def _sums(self, m: Module, place: Value, second: Signal, third: Signal, stalled: Signal) -> Signal:
        """Keep the sums, and of how many vectors each is made; return the sum that is to be added to or sent.

        A bit for each place says that its sum has begun; without it the sum is 0, whatever its word is. A register's
        reset makes that 0, where a word of 0 would take a gate for each bit in front of the memory.
        Nobody uses a sum that is read while it is written: the next addition to its place gets it directly, the one
        behind that waits, and a hub is sent when all additions to it are done.
        """
        config = self.config
        words = data.ArrayLayout(signed(PARTIAL_BITS), config.lanes)
        m.submodules.totals = sums = Memory(shape=words, depth=self.places, init=[], attrs=dict(NO_BYPASS))
        write, read = sums.write_port(), registered_read(m, sums, "sum")
        m.submodules.begun = begun = Memory(shape=1, depth=self.places, init=[], attrs=dict(NO_BYPASS))
        begin, has_begun = begun.write_port(), registered_read(m, begun, "begun")
        summed, adds, clears = Signal(words, reset_less=True), Signal(), Signal()
        m.submodules.additions = numbers = Memory(shape=self.owed_bits, depth=config.slots, init=[])
        number_write = numbers.write_port()
        number, check = (numbers.read_port(transparent_for=(number_write,)) for _ in range(2))
        # Like a sum: rows of a hub end in the same chunk.
        counted = Signal(self.owed_bits, reset_less=True)
        slot_at = exact_log2(config.chunks)
        written = Mux(adds, third.place, self.clear.payload)
        m.d.comb += [
            adds.eq(third.valid & ~third.sends),
            self.clear.ready.eq(~adds),
            clears.eq(self.clear.valid & ~adds),
            *(port.addr.eq(place) for port in (read, has_begun)),
            *(port.en.eq(~stalled) for port in (read, has_begun)),
            write.en.eq(adds),
            write.addr.eq(third.place),
            *(to.eq(sum_ + part) for to, sum_, part in zip(write.data, summed, third.data, strict=True)),
            begin.en.eq(adds | clears),
            begin.addr.eq(written),
            begin.data.eq(adds),
            number.addr.eq(place >> slot_at),
            number.en.eq(~stalled),
            number_write.en.eq((adds & third.last) | clears),
            number_write.addr.eq(written >> slot_at),
            number_write.data.eq(Mux(adds, counted + third.vectors, 0)),
            check.en.eq(1),
            check.addr.eq(self.added.address),
            self.added.data.eq(check.data),
        ]
        with m.If(~stalled):
            m.d.sync += [
                summed.eq(Mux(second.near, write.data, read.data)),
                counted.eq(Mux(second.near, number_write.data, number.data)),
            ]
            with m.If(~second.near & ~has_begun.data):
                m.d.sync += summed.eq(0)
        return summed
