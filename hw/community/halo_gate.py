"""Halo gate: holds rows of other chiplets' vertices back until they have come round the ring (I9, R14)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.queue import Queue

__all__ = ["HaloGate"]


class HaloGate(wiring.Component):
    """Passes wishes for vertices on, those of others only when `exchanging` has ended; until then they are put aside.

    What is put aside holds nobody up: own hubs are combined, and records without others' rows summed, meanwhile.

    Parameters
    ----------
    vid_bits
        Width of a VID.
    depth
        Wishes that can be put aside, at least 3; each vertex is wished for once a layer.

    Attributes
    ----------
    exchanging : In(1)
        Others' rows are on their way. Rises before there are wishes.
    first, vertices : In
        Own vertices; constant while there are wishes.
    i, o : streams of unsigned(`vid_bits`)
        Vertices to fetch, in any order.

    Raises
    ------
    ValueError
        If `depth` is below 3.
    """

    def __init__(self, vid_bits: int, depth: int) -> None:
        if depth < 3:
            raise ValueError(f"depth must be at least 3, not {depth!r}")
        self.vid_bits, self.depth = vid_bits, depth
        wishes = stream.Signature(vid_bits)
        super().__init__(
            {
                "exchanging": In(1),
                "first": In(vid_bits),
                "vertices": In(vid_bits + 1),
                "i": In(wishes),
                "o": Out(wishes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Put wishes for others' vertices aside; take them from there before any new one."""
        m = Module()
        m.submodules.aside = aside = Queue(self.vid_bits, self.depth, storage="block")
        own, late, opens, offered, waits = (Signal(name=name) for name in ("own", "late", "opens", "offered", "waits"))
        m.d.comb += [
            own.eq((self.i.payload - self.first)[: self.vid_bits + 1] < self.vertices),
            late.eq(waits & ~own),
            aside.i.payload.eq(self.i.payload),
            aside.i.valid.eq(self.i.valid & late),
            # What is offered stays.
            opens.eq(aside.o.valid & ~self.exchanging & ~offered),
            self.o.payload.eq(Mux(opens, aside.o.payload, self.i.payload)),
            self.o.valid.eq(opens | (self.i.valid & ~late)),
            aside.o.ready.eq(opens & self.o.ready),
            self.i.ready.eq(Mux(late, aside.i.ready, self.o.ready & ~opens)),
        ]
        m.d.sync += [
            waits.eq(self.exchanging),
            offered.eq(self.i.valid & ~late & ~opens & ~self.o.ready),
            Cover(opens & self.i.valid, "what was put aside goes first"),
            Cover(aside.o.valid & self.exchanging & self.o.valid & self.o.ready, "an own vertex overtakes"),
        ]
        return m
