"""Memory port of the machine on LiteDRAM: AXI4 beats spread over one port of the crossbar for each bank of the DRAM.

LiteDRAM keeps the accesses of one port in order by letting it use one bank at a time: before it may turn to another
bank, everything it has asked of the last one must be done. Rows of a graph are read at random, so nearly every beat
turns to another bank. Behind this block each bank has a port of its own, and the beats come back in the order of their
addresses from queues.
"""

from __future__ import annotations

from typing import Any

from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from litex.soc.interconnect.axi import AXIInterface
from litex.soc.interconnect.axi.axi_common import RESP_OKAY
from litex.soc.interconnect.axi.axi_full import AXIBurst2Beat, ax_description
from litex.soc.interconnect.axi.axi_stream import AXIStreamInterface
from migen import Array, Cat, Constant, Mux, Signal, log2_int

__all__ = ["BankedPort"]

#: Beats that a bank may have been asked for and not handed over, and those that all banks together may.
_DEPTH, _ORDER = 16, 64
#: Accesses of a bank that wait for the controller, which looks ahead by itself.
_COMMANDS = 4


class BankedPort(LiteXModule):
    """AXI4 subordinate in front of LiteDRAM's crossbar.

    Reads are answered in the order of their addresses, whatever their IDs; so are writes. A write is answered when the
    controller has taken its data, and a later read of the same bank comes behind it.

    Parameters
    ----------
    axi : AXIInterface
        The machine's port; beats as wide as the controller's.
    crossbar
        LiteDRAM's, with row, bank and column in this order in addresses.
    base
        Byte address of the first beat.
    """

    def __init__(self, axi: AXIInterface, crossbar: Any, base: int) -> None:
        self._axi, self._shift, self._base = axi, log2_int(axi.data_width // 8), base
        controller = crossbar.controller
        self._column_bits = controller.settings.geom.colbits - controller.address_align
        self._bank_bits = bank_bits = crossbar.bank_bits
        banks = range(1 << bank_bits)
        self._ports = ports = [crossbar.get_port() for _ in banks]
        reads, read_number = self._beats("ar")
        writes, write_number = self._beats("aw")
        # By bank: whether it takes a read or a write now, and whether the next answer is there.
        may_read, may_write, full, taken = (Array(Signal() for _ in banks) for _ in range(4))
        data = Array(Signal(axi.data_width) for _ in banks)
        read_bank, write_bank = self._bank(read_number), self._bank(write_number)
        layout = [("bank", bank_bits), ("id", axi.id_width), ("end", 1)]
        self.asked = asked = stream.SyncFIFO(layout, _ORDER, buffered=True)
        self.written = written = stream.SyncFIFO(layout, _ORDER, buffered=True)
        write = Signal()
        self.comb += [
            reads.ready.eq(may_read[read_bank] & asked.sink.ready),
            asked.sink.valid.eq(reads.valid & may_read[read_bank]),
            asked.sink.bank.eq(read_bank), asked.sink.id.eq(reads.id), asked.sink.end.eq(reads.last),
            write.eq(writes.valid & axi.w.valid & may_write[write_bank] & written.sink.ready),
            writes.ready.eq(write), axi.w.ready.eq(write), written.sink.valid.eq(write),
            written.sink.bank.eq(write_bank), written.sink.id.eq(writes.id), written.sink.end.eq(writes.last),
        ]  # fmt: skip
        for n, port in enumerate(ports):
            bank = _Bank(port, axi.data_width)
            self.submodules += bank
            self.comb += [
                may_read[n].eq(bank.may_read), may_write[n].eq(bank.may_write),
                bank.read.eq(reads.valid & reads.ready & (read_bank == n)), bank.write.eq(write & (write_bank == n)),
                bank.read_number.eq(self._in_bank(read_number, n)),
                bank.write_number.eq(self._in_bank(write_number, n)),
                bank.value.eq(axi.w.data), bank.strobe.eq(axi.w.strb),
                data[n].eq(bank.data), full[n].eq(bank.full), taken[n].eq(bank.taken),
                bank.pop.eq(asked.source.valid & asked.source.ready & (asked.source.bank == n)),
                bank.acknowledge.eq(written.source.valid & written.source.ready & (written.source.bank == n)),
            ]  # fmt: skip
        self.comb += [
            axi.r.valid.eq(asked.source.valid & full[asked.source.bank]),
            axi.r.data.eq(data[asked.source.bank]),
            axi.r.id.eq(asked.source.id), axi.r.last.eq(asked.source.end), axi.r.resp.eq(RESP_OKAY),
            asked.source.ready.eq(axi.r.valid & axi.r.ready),
            # Only the last beat of a burst is answered.
            axi.b.valid.eq(written.source.valid & taken[written.source.bank] & written.source.end),
            axi.b.id.eq(written.source.id), axi.b.resp.eq(RESP_OKAY),
            written.source.ready.eq(taken[written.source.bank] & (axi.b.ready | ~written.source.end)),
        ]  # fmt: skip

    def _beats(self, channel: str) -> tuple[Any, Signal]:
        """Split the bursts of a channel into beats; return them, and the number of each beat in the memory."""
        axi = self._axi
        beats = AXIStreamInterface(layout=ax_description(axi.address_width), id_width=axi.id_width)
        buffer = stream.Buffer(beats.description)
        split = AXIBurst2Beat(buffer.source, beats)
        self.submodules += buffer, split
        number = Signal(axi.address_width - self._shift)
        self.comb += [
            getattr(axi, channel).connect(buffer.sink),
            number.eq((beats.addr - self._base) >> self._shift),
        ]
        return beats, number

    def _bank(self, number: Signal) -> Signal:
        return number[self._column_bits : self._column_bits + self._bank_bits]

    def _in_bank(self, number: Signal, n: int) -> Any:
        """Return a beat's number with constant bits for its bank, so that synthesis sees which one a port uses."""
        low, high = self._column_bits, self._column_bits + self._bank_bits
        return Cat(number[:low], Constant(n, self._bank_bits), number[high:])


class _Bank(LiteXModule):
    """The accesses of one bank in their order, and what waits for its data or has come back.

    Parameters
    ----------
    port
        Of LiteDRAM's crossbar.
    data_width
        Of a beat.
    """

    def __init__(self, port: Any, data_width: int) -> None:
        width = len(port.cmd.addr)
        self.read, self.may_read, self.read_number = Signal(), Signal(), Signal(width)
        self.write, self.may_write, self.write_number = Signal(), Signal(), Signal(width)
        self.value, self.strobe = Signal(data_width), Signal(data_width // 8)
        self.data, self.full, self.pop = Signal(data_width), Signal(), Signal()
        self.taken, self.acknowledge = Signal(), Signal()
        self.commands = commands = stream.SyncFIFO([("we", 1), ("addr", width)], _COMMANDS)
        self.values = values = stream.SyncFIFO([("data", data_width), ("we", data_width // 8)], _COMMANDS)
        self.arrived = arrived = stream.SyncFIFO([("data", data_width)], _DEPTH)
        under_way, unanswered, takes = Signal(max=_DEPTH + 1), Signal(max=_ORDER + 1), Signal()
        self.comb += [
            self.may_write.eq(commands.sink.ready & values.sink.ready),
            # A write goes before a read of the same cycle.
            self.may_read.eq(commands.sink.ready & (under_way != _DEPTH) & ~self.write),
            commands.sink.valid.eq(self.read | self.write),
            commands.sink.we.eq(self.write),
            commands.sink.addr.eq(Mux(self.write, self.write_number, self.read_number)),
            values.sink.valid.eq(self.write), values.sink.data.eq(self.value), values.sink.we.eq(self.strobe),
            commands.source.connect(port.cmd),
            values.source.connect(port.wdata),
            port.rdata.connect(arrived.sink, omit={"bank"}),
            self.data.eq(arrived.source.data), self.full.eq(arrived.source.valid), arrived.source.ready.eq(self.pop),
            takes.eq(port.wdata.valid & port.wdata.ready),
            self.taken.eq(unanswered != 0),
        ]  # fmt: skip
        self.sync += [
            under_way.eq(under_way + self.read - self.pop),
            unanswered.eq(unanswered + takes - self.acknowledge),
        ]
