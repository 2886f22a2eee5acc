"""Column table: in which column of the record that is built a vertex stands."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig

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

    The first place of a vertex is read while its bundle is on its way, and compared when that is loaded, so that what
    is said of a lane comes from registers. What is inserted in those two cycles is compared with it, too.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    tag
        Of the record.
    ahead
        Vertices that may be loaded in the next cycle.
    load, vertices
        Look these up from the next cycle on, until the next ``load``; they were ``ahead`` in the cycle before.
    wanted
        A bit for each lane: it has to be settled.
    settled
        A bit for each lane: what follows is right.
    known, column
        Of every lane.
    insert, new_column
        The vertex of this lane, wanted, settled and not known, gets a column; all that are wanted are settled.
    clear
        A place to forget, while nothing else happens.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        #: Place of what is inserted (inside; the proof looks at it).
        self.address = Signal(config.table_bits)
        column = max(config.list_bits, config.hub_bits)
        super().__init__(
            {
                "tag": In(config.tag_bits),
                "ahead": In(config.node_bits).array(config.lanes),
                "load": In(1),
                "vertices": In(config.node_bits).array(config.lanes),
                "wanted": In(config.lanes),
                "settled": Out(config.lanes),
                "known": Out(config.lanes),
                "column": Out(column).array(config.lanes),
                "insert": In(config.lanes),
                "new_column": In(column),
                "clear": In(stream.Signature(config.table_bits, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Make a copy of the memory for each lane; all are written alike."""
        m = Module()
        config, lanes, home = self.config, range(self.config.lanes), slice(self.config.table_bits)
        vertices = [Signal(config.node_bits, name=f"vertex{lane}") for lane in lanes]
        places = [Signal(config.table_bits, name=f"place{lane}") for lane in lanes]
        address, entry = self.address, Signal(_Entry(config))
        m.d.comb += [entry.tag.eq(self.tag), entry.column.eq(self.new_column)]
        for lane in lanes:
            with m.If(self.insert[lane]):
                m.d.comb += [address.eq(places[lane]), entry.vertex.eq(vertices[lane])]
        # What was inserted in the cycle before: a place read in that cycle does not show it.
        last_valid, last_place, last = Signal(), Signal(config.table_bits), Signal(_Entry(config))
        m.d.sync += [last_valid.eq(self.insert.any()), last_place.eq(address), last.eq(entry)]

        for lane in lanes:
            copy = memory.Memory(shape=_Entry(config), depth=1 << config.table_bits, init=[])
            m.submodules[f"copy{lane}"] = copy
            write, read = copy.write_port(), copy.read_port()
            vertex, place, incoming = vertices[lane], places[lane], self.vertices[lane]
            # At its place stood one of this record, which was the vertex. It was inserted since; another was, there.
            used, same, added, taken = (Signal(name=f"{name}{lane}") for name in ("used", "same", "added", "taken"))
            # The next place is asked for, or the same ``again``; it is being read; what was ``ahead`` is.
            probes, again, reading, fresh = (
                Signal(name=f"{name}{lane}") for name in ("probes", "again", "reading", "fresh")
            )
            next_place = Signal(config.table_bits, name=f"next_place{lane}")
            m.d.comb += [
                probes.eq(self.wanted[lane] & ~self.settled[lane] & ~reading),
                next_place.eq(place + ~again),
                read.addr.eq(Mux(probes, next_place, self.ahead[lane][home])),
                self.settled[lane].eq(added | Mux(used, same, ~taken)),
                self.known[lane].eq(added | (used & same)),
                write.en.eq(self.insert.any() | self.clear.valid),
                write.addr.eq(Mux(self.clear.valid, self.clear.payload, address)),
                write.data.eq(Mux(self.clear.valid, 0, entry.as_value())),
            ]
            m.d.sync += [fresh.eq(~probes), reading.eq(probes & ~self.load)]
            found_used, found_same = Signal(name=f"found_used{lane}"), Signal(name=f"found_same{lane}")
            m.d.comb += [
                found_used.eq(read.data.tag == self.tag),
                found_same.eq(read.data.vertex == Mux(reading, vertex, incoming)),
            ]
            with m.If(self.load):
                adds = Cat(self.insert[n] & (vertices[n] == incoming) for n in lanes)
                takes = Cat(self.insert[n] & (places[n] == incoming[home]) for n in lanes)
                added_last = last_valid & (last.vertex == incoming)
                m.d.sync += [
                    vertex.eq(incoming),
                    place.eq(incoming),
                    used.eq(found_used | ~fresh),
                    same.eq(found_same & fresh),
                    added.eq(adds.any() | added_last),
                    taken.eq(takes.any() | (last_valid & (last_place == incoming[home]))),
                    again.eq(~fresh),
                    self.column[lane].eq(
                        Mux(adds.any(), self.new_column, Mux(added_last, last.column, read.data.column))
                    ),
                ]
            with m.Else():
                for n in lanes:
                    with m.If(self.insert[n] & (n != lane)):
                        with m.If(vertices[n] == vertex):
                            m.d.sync += [added.eq(1), self.column[lane].eq(self.new_column)]
                        with m.Elif(places[n] == place):
                            m.d.sync += taken.eq(1)
                with m.If(probes):
                    m.d.sync += [place.eq(next_place), again.eq(0)]
                with m.If(reading):
                    m.d.sync += [
                        used.eq(found_used),
                        same.eq(found_same),
                        taken.eq(0),
                        self.column[lane].eq(read.data.column),
                    ]
            m.d.sync += Cover(reading, "a place is taken")
        return m
