"""Row memory: keeps rows of a layer on the chip for the next one (I9)."""

from amaranth.hdl import Assert, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.block_memory import NO_BYPASS, registered_read
from hw.memory.formats import BURST_BEATS, LINE_BYTES, ReadBeat, ReadRequest, WriteRequest, line_address_width
from hw.stream.arbiter import Arbiter

__all__ = ["RowMemory"]


class RowMemory(wiring.Component):
    """Sits between the readers and writers of rows and the external memory, and can replace it.

    The latency is three cycles, the rate a beat a cycle. A layer reads rows of one place and writes others, so
    no beat is read in the cycle in which it is written. A beat is written whole, since rows of results are 0 where they
    are not strobed. A beat behind the end is not written, and its read aliases another one.

    Parameters
    ----------
    address_width, data_width
        Widths of the external memory port, in bits.
    lines
        Lines of 64 bytes, a power of two from 2.
    clients
        Number of readers, at least 2.

    Attributes
    ----------
    read_inside, write_inside
        Requests and writes address this memory, from 0; otherwise they pass to the external one. Constant while
        requests are outstanding.
    requests, beats
        Bursts of each client; their beats, in order.
    write
        Beats to write; here, one a cycle, readable from the next cycle on.
    outside_requests, outside_beats, outside_write
        The same on the external side.
    beyond
        Line address of an access behind the end of this memory, in the next cycle.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, lines: int = 2048, clients: int = 3) -> None:
        if lines < 2 or lines & (lines - 1):
            raise ValueError(f"lines must be a power of two from 2, not {lines!r}")
        if clients < 2:
            raise ValueError(f"clients must be at least 2, not {clients!r}")
        self.data_width, self.lines, self.clients = data_width, lines, clients
        #: Grant among the clients' requests for this memory (internal; read by the proof).
        self.arbiter = Arbiter(ReadRequest(address_width, data_width), clients)
        #: A beat is read while it is written, which nobody may do (internal; read by the proof).
        self.collides = Signal()
        request = stream.Signature(ReadRequest(address_width, data_width))
        beat = stream.Signature(ReadBeat(data_width), always_ready=True)
        write = stream.Signature(WriteRequest(address_width, data_width))
        super().__init__(
            {
                "read_inside": In(1),
                "write_inside": In(1),
                "requests": In(request).array(clients),
                "beats": Out(beat).array(clients),
                "write": In(write),
                "outside_requests": Out(request).array(clients),
                "outside_beats": In(beat).array(clients),
                "outside_write": Out(write),
                "beyond": Out(stream.Signature(line_address_width(address_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Serve one burst at a time, with a register behind the memory."""
        m = Module()
        in_line = exact_log2(LINE_BYTES * 8 // self.data_width)
        depth = self.lines << in_line
        m.submodules.arbiter = arbiter = self.arbiter
        for request, here, outside in zip(self.requests, arbiter.i, self.outside_requests, strict=True):
            m.d.comb += [
                here.payload.eq(request.payload),
                outside.payload.eq(request.payload),
                here.valid.eq(request.valid & self.read_inside),
                outside.valid.eq(request.valid & ~self.read_inside),
                request.ready.eq(Mux(self.read_inside, here.ready, outside.ready)),
            ]
        m.submodules.rows = rows = Memory(shape=self.data_width, depth=depth, init=[], attrs=dict(NO_BYPASS))
        write, read = rows.write_port(), registered_read(m, rows)

        burst, passed = arbiter.o.payload.payload, Signal(range(BURST_BEATS))
        address, last = Signal.like(burst.address), Signal()
        m.d.comb += [
            address.eq(burst.address + passed),
            last.eq(passed == burst.length),
            arbiter.o.ready.eq(last),
            read.addr.eq(address),
        ]
        with m.If(arbiter.o.valid):
            m.d.sync += passed.eq(Mux(last, 0, passed + 1))

        comes, ends, client = Signal(), Signal(), Signal.like(arbiter.o.payload.source)
        beat, valid, owner = Signal(ReadBeat(self.data_width), reset_less=True), Signal(), Signal.like(client)
        m.d.sync += [
            comes.eq(arbiter.o.valid),
            ends.eq(last),
            client.eq(arbiter.o.payload.source),
            valid.eq(comes),
            beat.data.eq(read.data),
            beat.last.eq(ends),
            owner.eq(client),
        ]
        for n, (port, outside) in enumerate(zip(self.beats, self.outside_beats, strict=True)):
            here = valid & (owner == n)
            m.d.comb += [
                port.valid.eq(here | outside.valid),
                port.payload.eq(Mux(here, beat.as_value(), outside.payload.as_value())),
            ]

        wanted = self.write.payload
        written, written_behind, asked_behind = Signal(), Signal(), Signal()
        m.d.comb += [
            self.outside_write.payload.eq(wanted),
            self.outside_write.valid.eq(self.write.valid & ~self.write_inside),
            self.write.ready.eq(self.write_inside | self.outside_write.ready),
            written.eq(self.write.valid & self.write_inside),
            write.addr.eq(wanted.address),
            write.data.eq(wanted.data),
            written_behind.eq(written & (wanted.address >= depth)),
            asked_behind.eq(arbiter.o.valid & (address >= depth)),
            write.en.eq(written & ~written_behind),
            self.collides.eq(write.en & arbiter.o.valid & (write.addr == read.addr)),
        ]
        m.d.sync += [
            self.beyond.valid.eq(written_behind | asked_behind),
            self.beyond.payload.eq(Mux(written_behind, wanted.address, address) >> in_line),
            Assert(~self.collides, "no beat is read while it is written"),
            Cover(arbiter.o.valid & ~last, "a burst of several beats"),
            Cover(written_behind, "a write behind the last line"),
            Cover(asked_behind, "a read behind the last line"),
        ]
        return m
