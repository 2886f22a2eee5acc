"""Replica table: attribute rows of other chiplets' vertices of which the own memory has copies (R1, A3)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.attributes.formats import AttributeConfig
from hw.block_memory import NO_BYPASS, registered_read

__all__ = ["PlacedRow", "ReplicaEntry", "ReplicaTable", "replica_members"]


class ReplicaEntry(data.StructLayout):
    """Word of the table: the copy in row ``cell`` is that of ``id``, if this ends with the bits of ``cell``."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__({"cell": range(config.replicas), "id": unsigned(config.id_bits)})


class PlacedRow(data.StructLayout):
    """Where a row is: number ``row`` of all attributes, or with ``copied`` of the copies."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__({"row": unsigned(config.id_bits), "copied": 1})


def replica_members(config: AttributeConfig) -> dict[str, wiring.Member]:
    """Return the member ``replica`` of what has replica tables inside: entries for all of them."""
    if not config.replicas:
        return {}
    return {"replica": In(stream.Signature(ReplicaEntry(config), always_ready=True))}


class ReplicaTable(wiring.Component):
    """Says of each ID whether there is a copy of its row. The lowest bits of an ID name its only cell.

    Parameters
    ----------
    config : AttributeConfig
        With ``replicas``, the number of cells.

    Attributes
    ----------
    replica : stream of `ReplicaEntry`, always ready
        Only while no ID is under way.
    use : In(1)
        There are copies at all; constant while IDs are under way.
    i : stream of IDs
    o : stream of `PlacedRow`
        One a cycle, a cycle later.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                **replica_members(config),
                "use": In(1),
                "i": In(stream.Signature(unsigned(config.id_bits))),
                "o": Out(stream.Signature(PlacedRow(config))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Read the cell beside a register with the ID, and compare."""
        m = Module()
        config, bits = self.config, exact_log2(self.config.replicas)
        m.submodules.cells = cells = Memory(shape=config.id_bits, depth=config.replicas, init=[], attrs=dict(NO_BYPASS))
        read, write = registered_read(m, cells), cells.write_port()
        entry, identity, there = self.replica.payload, Signal(config.id_bits, reset_less=True), Signal()
        copied = Signal()
        m.d.comb += [
            write.en.eq(self.replica.valid),
            write.addr.eq(entry.cell),
            write.data.eq(entry.id),
            self.i.ready.eq(self.o.ready | ~there),
            read.en.eq(self.i.ready),
            read.addr.eq(self.i.payload[:bits]),
            copied.eq(self.use & (read.data == identity)),
            self.o.valid.eq(there),
            self.o.payload.copied.eq(copied),
            self.o.payload.row.eq(Mux(copied, identity[:bits], identity)),
        ]
        with m.If(self.i.ready):
            m.d.sync += [there.eq(self.i.valid), identity.eq(self.i.payload)]
        m.d.sync += [
            Cover(there & copied & self.o.ready, "a row has a copy"),
            Cover(there & self.use & ~copied & self.o.ready, "a row has no copy"),
        ]
        return m
