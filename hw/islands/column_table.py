"""Column table: in which column of the record that is built a vertex stands."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.config import LocatorConfig

__all__ = ["ColumnTable"]


class _Entry(data.StructLayout):
    """A ``vertex`` and its ``column``, empty unless its ``tag`` is that of the record."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {"tag": config.tag_bits, "vertex": config.node_bits, "column": max(config.list_bits, config.hub_bits)}
        )


class ColumnTable(wiring.Component):
    """Looked up by the low bits of a vertex, from there on in order; the vertices of a bundle are looked up at once.

    At most a quarter of the table is in use if it is smaller than the graph, so a search for a place is short. Every
    lane has a copy to read. Entries carry the tag of their record, so nothing has to be cleared between records.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    tag
        Of the record.
    load, vertices
        Look these up from the next cycle on, until the next ``load``.
    settled
        A bit for each lane: what follows is right.
    known, column
        Of every lane.
    insert, lane, new_column
        The vertex of this lane, settled and not known, gets a column.
    clear
        A place to forget, while nothing else happens.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        column = max(config.list_bits, config.hub_bits)
        super().__init__(
            {
                "tag": In(config.tag_bits),
                "load": In(1),
                "vertices": In(config.node_bits).array(config.lanes),
                "settled": Out(config.lanes),
                "known": Out(config.lanes),
                "column": Out(column).array(config.lanes),
                "insert": In(1),
                "lane": In(range(max(2, config.lanes))),
                "new_column": In(column),
                "clear": In(stream.Signature(config.table_bits, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Make a copy of the memory for each lane; all are written alike."""
        m = Module()
        config = self.config
        address, entry = Signal(config.table_bits), Signal(_Entry(config))
        m.d.comb += [entry.tag.eq(self.tag), entry.column.eq(self.new_column)]
        for lane in range(config.lanes):
            copy = memory.Memory(shape=_Entry(config), depth=1 << config.table_bits, init=[])
            m.submodules[f"copy{lane}"] = copy
            write = copy.write_port()
            read = copy.read_port(transparent_for=(write,))
            vertex, place = (
                Signal(config.node_bits, name=f"vertex{lane}"),
                Signal(config.table_bits, name=f"place{lane}"),
            )
            stale, used, same = (Signal(name=f"{name}{lane}") for name in ("stale", "used", "same"))
            m.d.comb += [
                read.addr.eq(Mux(self.load, self.vertices[lane][: config.table_bits], place)),
                used.eq(read.data.tag == self.tag),
                same.eq(read.data.vertex == vertex),
                self.settled[lane].eq(~stale & (~used | same)),
                self.known[lane].eq(used & same),
                self.column[lane].eq(read.data.column),
                write.en.eq(self.insert | self.clear.valid),
                write.addr.eq(Mux(self.clear.valid, self.clear.payload, address)),
                write.data.eq(Mux(self.clear.valid, 0, entry.as_value())),
            ]
            with m.If(self.lane == lane):
                m.d.comb += [address.eq(place), entry.vertex.eq(vertex)]
            m.d.sync += stale.eq(0)
            with m.If(self.load):
                m.d.sync += [vertex.eq(self.vertices[lane]), place.eq(self.vertices[lane])]
            with m.Elif(~stale & used & ~same):
                m.d.sync += [place.eq(place + 1), stale.eq(1)]
            m.d.sync += Cover(stale, "a place is taken")
        return m
