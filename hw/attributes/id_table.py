"""ID table: exact map between IDs and the slots of the attribute buffer, both ways (A5)."""

from random import Random

from amaranth import Cat, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.hdl import Array, Cover
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig

__all__ = ["CELLS", "IDTable", "TableChange", "bucket_masks"]

#: Cells that can hold an ID: so many in each of two buckets.
SIDE_CELLS = 4
CELLS = 2 * SIDE_CELLS
#: Cell of an ID for which there was no room.
UNLISTED = CELLS


class TableChange(enum.Enum, shape=3):  # type: ignore[call-arg]
    """A change of the table; `IDTable` says of what."""

    NONE = 0
    #: The ID at the target slot leaves the table.
    DISPLACE = 1
    #: The ID looked up takes the target slot; the cycle after `DISPLACE`.
    PLACE = 2
    #: The ID looked up moves from its address to the target slot.
    MOVE = 3
    #: What was at the target slot goes to that address; the cycle after `MOVE`.
    MOVE_OTHER = 4
    #: The ID at `clear_slot` leaves the table.
    CLEAR = 5


def bucket_masks(id_bits: int, bucket_bits: int, side: int) -> list[int]:
    """For every bit of a bucket's number the bits of the ID whose parity it is.

    Every bit of an ID counts in each hash, and the two hashes are unlike.
    """
    random = Random(side)
    return [
        sum(1 << bit for bit in range(id_bits) if bit % bucket_bits == row or random.random() < 1 / 4)
        for row in range(bucket_bits)
    ]


class IDTable(wiring.Component):
    """A hash table with two buckets of four cells for every ID, and the ID and cell of every slot.

    A look-up takes two memory reads side by side, the cells of the ID and the entry at the target slot, and ends three
    cycles after it was presented; one can begin in every cycle. An ID goes into the emptier of its buckets. If both are
    full it is *unlisted*: the entry at its slot still has it, and while there are such IDs, a look-up that finds
    nothing has to be followed by a search through all slots. So the table is exact whatever the IDs are, and it answers
    at once as long as they spread.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    ready : Out(1)
        Memories are swept; 0 after reset and after `flush`.
    flush : In(1)
        Forget everything.
    run : In(1)
        Look-ups advance; otherwise all results stay.
    id, slot : In
        What to look up, and the target slot.
    found, address, cell : Out
        The ID is in the buffer, where, and in which cell.
    in_place : Out(1)
        It is at the target slot; then the three above are not needed.
    occupied, occupant : Out
        The target slot has an entry, and its ID.
    unlisted : Out(1)
        There are IDs that only a search finds.
    change : In(TableChange)
        To the look-up whose results are there.
    by_search, searched_address : In
        `MOVE` an ID that a search found.
    clear_slot, clear_id, clear_cell : In
        For `CLEAR`.
    placed_cell : Out
        Cell that `PLACE` takes.
    search, search_slot : In
        Read the entry of a slot instead of looking up; only while `run` is 0.
    search_hit : Out(1)
        The cycle after `search`: that slot has the ID looked up.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot, cell = range(config.slots), range(CELLS + 1)
        self._entry = data.StructLayout({"valid": 1, "id": unsigned(config.id_bits), "cell": cell})
        self._cell = data.StructLayout({"valid": 1, "id": unsigned(config.id_bits), "slot": slot})
        super().__init__(
            {
                "ready": Out(1),
                "flush": In(1),
                "run": In(1),
                "id": In(config.id_bits),
                "slot": In(slot),
                "found": Out(1),
                "address": Out(slot),
                "cell": Out(cell),
                "in_place": Out(1),
                "occupied": Out(1),
                "occupant": Out(config.id_bits),
                "unlisted": Out(1),
                "change": In(TableChange),
                "by_search": In(1),
                "searched_address": In(slot),
                "clear_slot": In(slot),
                "clear_id": In(config.id_bits),
                "clear_cell": In(cell),
                "placed_cell": Out(cell),
                "search": In(1),
                "search_slot": In(slot),
                "search_hit": Out(1),
            }
        )

    def _bucket(self, side: int, identity: Value) -> Value:
        bits = (self.config.buckets - 1).bit_length()
        masks = bucket_masks(self.config.id_bits, bits, side)
        return Cat(Cat(identity[n] for n in range(len(identity)) if mask >> n & 1).xor() for mask in masks)

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the pipeline, the changes and the sweep."""
        m = Module()
        config = self.config
        m.submodules.entries = entries = Memory(shape=self._entry, depth=config.slots, init=[])
        entry_write, entry_read = entries.write_port(), entries.read_port()
        cell_write, cell_read = [], []
        for n in range(CELLS):
            m.submodules[f"cells_{n}"] = cells = Memory(shape=self._cell, depth=config.buckets, init=[])
            cell_write.append(cells.write_port())
            cell_read.append(cells.read_port())

        # First cycle: addresses. Second: compare what was read. Third: say which.
        read = data.StructLayout({"id": config.id_bits, "slot": range(config.slots)})
        asked, compared, held = Signal(read), Signal(read), Signal(read)
        match, taken = Signal(CELLS), Signal(CELLS)
        bits = (config.buckets - 1).bit_length()
        bucket = data.ArrayLayout(unsigned(bits), 2)
        wanted_bucket, entry_bucket, asked_bucket = (
            Signal(bucket, name=f"{n}_bucket") for n in ("wanted", "entry", "asked")
        )
        addresses = Array(Signal(range(config.slots), name=f"address_{n}") for n in range(CELLS))
        entry, same = Signal(self._entry), Signal()
        m.d.comb += [entry_read.addr.eq(self.slot), entry_read.en.eq(self.run | self.search)]
        with m.If(self.search):
            m.d.comb += entry_read.addr.eq(self.search_slot)
        for n, port in enumerate(cell_read):
            m.d.comb += [
                port.addr.eq(self._bucket(n // SIDE_CELLS, self.id)),
                port.en.eq(self.run),
            ]
        free = Signal(range(CELLS + 1))
        occupant_cell = Signal(range(CELLS + 1))
        with m.If(self.run):
            m.d.sync += [
                asked.id.eq(self.id),
                asked.slot.eq(self.slot),
                compared.eq(asked),
                held.eq(compared),
                entry.eq(entry_read.data),
                same.eq(entry_read.data.valid & (entry_read.data.id == asked.id)),
                wanted_bucket.eq(asked_bucket),
            ]
            for side in range(2):
                m.d.sync += [
                    asked_bucket[side].eq(self._bucket(side, self.id)),
                    entry_bucket[side].eq(self._bucket(side, entry_read.data.id)),
                ]
            for n, port in enumerate(cell_read):
                m.d.sync += [
                    match[n].eq(port.data.valid & (port.data.id == asked.id)),
                    taken[n].eq(port.data.valid),
                    addresses[n].eq(port.data.slot),
                ]
            m.d.sync += [
                self.in_place.eq(same),
                self.occupied.eq(entry.valid),
                self.occupant.eq(entry.id),
                occupant_cell.eq(entry.cell),
                self.found.eq(match.any()),
                self.address.eq(0),
                self.cell.eq(UNLISTED),
                free.eq(UNLISTED),
            ]
            for n in range(CELLS):
                with m.If(match[n]):
                    m.d.sync += [self.address.eq(addresses[n]), self.cell.eq(n)]
            # What leaves the target slot makes room, too.
            same_bucket = Cat(entry_bucket[side] == wanted_bucket[side] for side in range(2))
            leaves = Cat(entry.valid & (entry.cell == n) & same_bucket[n // SIDE_CELLS] for n in range(CELLS))
            busy = Signal(CELLS)
            m.d.comb += busy.eq(taken & ~leaves)
            low, high = busy[:SIDE_CELLS], busy[SIDE_CELLS:]
            fuller = sum(high) < sum(low)  # the second bucket has more room
            for n in reversed(range(CELLS)):
                wanted = fuller if n >= SIDE_CELLS else ~fuller
                with m.If(~busy[n] & wanted):
                    m.d.sync += free.eq(n)
        # A search reads past the pipeline, so it compares with the look-up whose results are held.
        m.d.comb += [
            self.search_hit.eq(entry_read.data.valid & (entry_read.data.id == held.id)),
            self.placed_cell.eq(free),
        ]

        # Changes.
        sweep = Signal(range(max(config.slots, config.buckets) + 1))
        m.d.comb += self.ready.eq(sweep == max(config.slots, config.buckets))
        lost = Signal(range(config.slots + 1))
        m.d.comb += self.unlisted.eq(lost != 0)
        more, fewer = Signal(), Signal()
        m.d.sync += lost.eq(lost + more - fewer)

        moved_cell = Mux(self.by_search, UNLISTED, self.cell)
        moved_from = Mux(self.by_search, self.searched_address, self.address)
        word = Signal(self._cell)  # what goes into a cell
        where, key = Signal(range(CELLS + 1)), Signal(config.id_bits)
        change_cell = Signal()
        m.d.comb += key.eq(word.id)
        with m.Switch(self.change):
            with m.Case(TableChange.DISPLACE):
                m.d.comb += [
                    change_cell.eq(self.occupied),
                    where.eq(occupant_cell),
                    word.id.eq(self.occupant),
                    fewer.eq(self.occupied & (occupant_cell == UNLISTED)),
                ]
            with m.Case(TableChange.PLACE):
                m.d.comb += [
                    change_cell.eq(1),
                    where.eq(free),
                    word.valid.eq(1),
                    word.id.eq(held.id),
                    word.slot.eq(held.slot),
                    more.eq(free == UNLISTED),
                    entry_write.en.eq(1),
                    entry_write.addr.eq(held.slot),
                    entry_write.data.valid.eq(1),
                    entry_write.data.id.eq(held.id),
                    entry_write.data.cell.eq(free),
                ]
            with m.Case(TableChange.MOVE):
                m.d.comb += [
                    change_cell.eq(1),
                    where.eq(moved_cell),
                    word.valid.eq(1),
                    word.id.eq(held.id),
                    word.slot.eq(held.slot),
                    entry_write.en.eq(1),
                    entry_write.addr.eq(held.slot),
                    entry_write.data.valid.eq(1),
                    entry_write.data.id.eq(held.id),
                    entry_write.data.cell.eq(moved_cell),
                ]
            with m.Case(TableChange.MOVE_OTHER):
                m.d.comb += [
                    change_cell.eq(self.occupied),
                    where.eq(occupant_cell),
                    word.valid.eq(1),
                    word.id.eq(self.occupant),
                    word.slot.eq(moved_from),
                    entry_write.en.eq(1),
                    entry_write.addr.eq(moved_from),
                    entry_write.data.valid.eq(self.occupied),
                    entry_write.data.id.eq(self.occupant),
                    entry_write.data.cell.eq(occupant_cell),
                ]
            with m.Case(TableChange.CLEAR):
                m.d.comb += [
                    change_cell.eq(1),
                    where.eq(self.clear_cell),
                    word.id.eq(self.clear_id),
                    fewer.eq(self.clear_cell == UNLISTED),
                    entry_write.en.eq(1),
                    entry_write.addr.eq(self.clear_slot),
                ]
        for n, port in enumerate(cell_write):
            m.d.comb += [
                port.en.eq(change_cell & (where == n)),
                port.addr.eq(self._bucket(n // SIDE_CELLS, key)),
                port.data.eq(word),
            ]
        with m.If(~self.ready):
            m.d.sync += sweep.eq(sweep + 1)
            m.d.comb += [entry_write.en.eq(sweep < config.slots), entry_write.addr.eq(sweep), entry_write.data.eq(0)]
            for port in cell_write:
                m.d.comb += [port.en.eq(sweep < config.buckets), port.addr.eq(sweep), port.data.eq(0)]
        with m.If(self.flush):
            m.d.sync += [sweep.eq(0), lost.eq(0)]
        placing = self.ready & (self.change == TableChange.PLACE)
        m.d.sync += Cover(placing & (free >= SIDE_CELLS), "the second bucket has more room")
        if config.slots > CELLS:
            m.d.sync += Cover(self.ready & self.unlisted, "an ID found no cell")
        return m
