"""Scratch gate: what a unit reads and writes of the scratchpad's lines goes there, all else to memory.

There may be a window beside the scratchpad, from which the unit only reads.
"""

from typing import Any

from amaranth.hdl import Assert, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import LINE_BYTES
from hw.memory.formats import CLIENTS_MAX, ReadBeat, ReadRequest, WriteRequest, check_port, line_address_width
from hw.memory.scratchpad import ScratchBeat, ScratchRead, ScratchWrite
from hw.memory.window import WindowBeat, WindowRead
from hw.stream.arbiter import merge
from hw.stream.slice import Slice

__all__ = ["Place", "ScratchGate"]


class Place(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Where a burst goes."""

    MEMORY = 0
    SCRATCHPAD = 1
    WINDOW = 2


class ScratchGate(wiring.Component):
    """Stands between a unit and its memory port.

    A client's beats come in the order of its bursts, although the scratchpad answers at once and the memory late: a
    burst to another place waits until all of the client's bursts to the one before have been answered. So a client
    should not change between them from row to row.

    Parameters
    ----------
    lines
        Size of the scratchpad, in lines.
    address_width, data_width
        Widths of the memory port, in bits.
    clients
        Number of read clients, 1 to 16.
    outstanding
        Bursts of a client under way.
    windowed
        Whether there is a window.

    Attributes
    ----------
    first, end : In
        Lines of the memory that the scratchpad has, from `first` up to before `end`; none if they are equal. Constant
        while anything is under way. At most `lines`, and no burst has beats inside and outside.
    requests, beats
        Clients' ends: streams of `ReadRequest` and `ReadBeat`.
    write : stream of `WriteRequest`
    to_memory, from_memory, write_memory
        The same streams, without what the scratchpad has.
    reads, answers, write_scratch
        To and from the `Scratchpad`.
    window_first, window_end, window_reads, window_answers
        Of the window, if there is one, see `hw.memory.window.window_members`; its lines are not the scratchpad's.

    Raises
    ------
    ValueError
        If there are no clients or too many.
    """

    def __init__(
        self,
        lines: int,
        address_width: int = 32,
        data_width: int = 256,
        clients: int = 4,
        outstanding: int = 64,
        *,
        windowed: bool = False,
    ) -> None:
        check_port(address_width, data_width)
        if not 1 <= clients <= CLIENTS_MAX:
            raise ValueError(f"clients must be in 1..{CLIENTS_MAX}, not {clients!r}")
        self.clients, self.outstanding = clients, outstanding
        self._request, self._read = ReadRequest(address_width, data_width), ScratchRead(lines, data_width)
        self.windowed, self._window = windowed, WindowRead(address_width, data_width)
        #: Bursts of each client under way, and the place that all of them go to (read by proofs).
        self.under_way = [Signal(range(outstanding + 1), name=f"under_way_{n}") for n in range(clients)]
        self.place = [Signal(Place, name=f"place_{n}") for n in range(clients)]
        #: Each client's next bursts, and the place that has them (read by proofs).
        self.held = [Slice(data.StructLayout({"burst": self._request, "place": Place})) for _ in range(clients)]
        #: Each client's bursts to the scratchpad and to the window, in front of the arbiters (read by proofs).
        self.scratch = _ports(self._read, "scratch", clients)
        self.window = _ports(self._window, "window", clients if windowed else 0)
        self._beats_of_line = exact_log2(8 * LINE_BYTES // data_width)
        line = line_address_width(address_width)
        requests = stream.Signature(self._request)
        beats = stream.Signature(ReadBeat(data_width), always_ready=True)
        write = stream.Signature(WriteRequest(address_width, data_width))
        super().__init__(
            {
                "first": In(line),
                "end": In(line),
                "requests": In(requests).array(clients),
                "beats": Out(beats).array(clients),
                "write": In(write),
                "to_memory": Out(requests).array(clients),
                "from_memory": In(beats).array(clients),
                "write_memory": Out(write),
                "reads": Out(stream.Signature(self._read)),
                "answers": In(stream.Signature(ScratchBeat(data_width), always_ready=True)),
                "write_scratch": Out(stream.Signature(ScratchWrite(lines, data_width))),
                **(
                    {
                        "window_first": In(line),
                        "window_end": In(line),
                        "window_reads": Out(stream.Signature(self._window)),
                        "window_answers": In(stream.Signature(WindowBeat(data_width), always_ready=True)),
                    }
                    if windowed
                    else {}
                ),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Part bursts and beats to write, and join the answers."""
        m = Module()
        for n in range(self.clients):
            self._client(m, n)
        for name, ports, out in (
            ("arbiter", self.scratch, self.reads),
            *((("window_arbiter", self.window, self.window_reads),) if self.windowed else ()),
        ):
            reads, read, _ = merge(m, name, ports, out.payload.shape())
            m.d.comb += [out.valid.eq(reads.valid), out.payload.eq(read), reads.ready.eq(out.ready)]
        beat, word, here = self.write, self.write.payload, Signal()
        m.d.comb += [
            here.eq(self._lies(word.address, self.first, self.end)),
            self.write_memory.valid.eq(beat.valid & ~here),
            self.write_memory.payload.eq(word),
            self.write_scratch.valid.eq(beat.valid & here),
            self.write_scratch.payload.address.eq(self._within(word.address)),
            self.write_scratch.payload.data.eq(word.data),
            self.write_scratch.payload.strobe.eq(word.strobe),
            beat.ready.eq(Mux(here, self.write_scratch.ready, self.write_memory.ready)),
        ]
        return m

    def _lies(self, address: Any, first: Any, end: Any) -> Any:
        """Return whether a beat is in the lines from `first` up to before `end`."""
        line = address[self._beats_of_line :]
        return (line >= first) & (line < end)

    def _within(self, address: Any) -> Any:
        """Return the place of a beat in the scratchpad."""
        return (address - (self.first << self._beats_of_line))[: len(self.write_scratch.payload.address)]

    def _client(self, m: Module, n: int) -> None:
        """Part the bursts of a client and join its beats."""
        m.submodules[f"request_{n}"] = held = self.held[n]
        request, memory, scratch = self.requests[n], self.to_memory[n], self.scratch[n]
        under_way, last_place = self.under_way[n], self.place[n]
        burst, place = held.o.payload.burst, held.o.payload.place
        may, passes, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            held.i.valid.eq(request.valid),
            held.i.payload.burst.eq(request.payload),
            held.i.payload.place.eq(
                Mux(self._lies(request.payload.address, self.first, self.end), Place.SCRATCHPAD, Place.MEMORY)
            ),
            request.ready.eq(held.i.ready),
            may.eq((under_way == 0) | ((last_place == place) & (under_way != self.outstanding))),
            memory.payload.eq(burst),
            scratch.payload.address.eq(self._within(burst.address)),
            scratch.payload.length.eq(burst.length),
            scratch.payload.client.eq(n),
            passes.eq(held.o.valid & held.o.ready),
        ]
        targets: list[tuple[Any, Any]] = [(Place.MEMORY, memory), (Place.SCRATCHPAD, scratch)]
        sources: list[Any] = [self.answers]
        if self.windowed:
            window = self.window[n]
            targets.append((Place.WINDOW, window))
            sources.append(self.window_answers)
            with m.If(self._lies(request.payload.address, self.window_first, self.window_end)):
                m.d.comb += held.i.payload.place.eq(Place.WINDOW)
            m.d.comb += [
                window.payload.address.eq(burst.address),
                window.payload.length.eq(burst.length),
                window.payload.client.eq(n),
            ]
        for number, target in targets:
            with m.If(place == number):
                m.d.comb += [target.valid.eq(held.o.valid & may), held.o.ready.eq(may & target.ready)]
        beat = self.beats[n]
        m.d.comb += [beat.valid.eq(self.from_memory[n].valid), beat.payload.eq(self.from_memory[n].payload)]
        for source in sources:
            comes = Signal(name="comes")
            m.d.comb += comes.eq(source.valid & (source.payload.client == n))
            with m.If(comes):
                m.d.comb += [
                    beat.valid.eq(1),
                    beat.payload.data.eq(source.payload.data),
                    beat.payload.last.eq(source.payload.last),
                    beat.payload.error.eq(source.payload.error if "error" in source.payload.shape().members else 0),
                ]
            m.d.sync += Assert(~(comes & self.from_memory[n].valid), "a client is answered from one place at a time")
        m.d.comb += ends.eq(beat.valid & beat.payload.last)
        m.d.sync += under_way.eq(under_way + passes - ends)
        with m.If(passes):
            m.d.sync += last_place.eq(place)
        m.d.sync += Cover(
            held.o.valid & (under_way != 0) & (last_place != place), "a burst waits for those to another place"
        )


def _ports(shape: data.StructLayout, name: str, count: int) -> list[Any]:
    """Return streams inside the gate, one for each client."""
    return [stream.Signature(shape).create(path=(f"{name}_{n}",)) for n in range(count)]
