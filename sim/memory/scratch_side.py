"""A scratchpad behind the gates of several units, with the memory's side of the gates left open."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.memory.formats import ReadBeat, ReadRequest, WriteRequest, line_address_width
from hw.memory.scratch_gate import ScratchGate
from hw.memory.scratchpad import Scratchpad

__all__ = ["ScratchSide"]


class ScratchSide(wiring.Component):
    """Each unit has a gate, as in `hw.memory.unit_port.attach_unit`.

    Parameters
    ----------
    lines, data_width, units
        As for `Scratchpad`.
    clients
        Of each unit.
    outstanding
        As for `ScratchGate`.

    Attributes
    ----------
    first, end : In
        As of `ScratchGate`, for all.
    requests, beats, to_memory, from_memory
        Clients' streams and the memory's, unit by unit.
    writes, to_write
        Beats to write, and what is left of them for the memory.
    busy : Out
        A bit for each unit.
    """

    def __init__(
        self, lines: int = 128, data_width: int = 64, units: int = 2, clients: int = 2, outstanding: int = 4
    ) -> None:
        self.lines, self.data_width, self.units, self.clients = lines, data_width, units, clients
        self.outstanding, port = outstanding, (32, data_width)
        request, write = stream.Signature(ReadRequest(*port)), stream.Signature(WriteRequest(*port))
        beat = stream.Signature(ReadBeat(data_width), always_ready=True)
        super().__init__(
            {
                "first": In(line_address_width(32)),
                "end": In(line_address_width(32)),
                "requests": In(request).array(units * clients),
                "beats": Out(beat).array(units * clients),
                "to_memory": Out(request).array(units * clients),
                "from_memory": In(beat).array(units * clients),
                "writes": In(write).array(units),
                "to_write": Out(write).array(units),
                "busy": Out(units),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the gates."""
        m = Module()
        m.submodules.pad = pad = Scratchpad(self.lines, self.data_width, self.units)
        for unit in range(self.units):
            m.submodules[f"gate_{unit}"] = gate = ScratchGate(
                self.lines, 32, self.data_width, self.clients, self.outstanding
            )
            m.d.comb += [gate.first.eq(self.first), gate.end.eq(self.end), self.busy[unit].eq(pad.busy[unit])]
            connect(m, flipped(self.writes[unit]), gate.write)
            connect(m, gate.write_memory, flipped(self.to_write[unit]))
            connect(m, gate.reads, pad.reads[unit])
            connect(m, pad.beats[unit], gate.answers)
            connect(m, gate.write_scratch, pad.writes[unit])
            for client in range(self.clients):
                n = unit * self.clients + client
                connect(m, flipped(self.requests[n]), gate.requests[client])
                connect(m, gate.beats[client], flipped(self.beats[n]))
                connect(m, gate.to_memory[client], flipped(self.to_memory[n]))
                connect(m, flipped(self.from_memory[n]), gate.from_memory[client])
        return m
