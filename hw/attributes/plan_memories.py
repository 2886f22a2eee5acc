"""Memories of the slot planner: requests that are held, what each is linked to, and what is in the slots (A4)."""

from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Value, ValueLike
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.utils import ceil_log2, exact_log2

from contracts.planning import CELLS, LANES
from hw.attributes.formats import AttributeConfig
from hw.block_memory import NO_BYPASS, registered_read

__all__ = ["Memories", "Shapes"]


class _Words:
    """A memory with one port to read and one to write, each of which several may use, but one at a time."""

    def __init__(self, m: Module, name: str, shape: Any, depth: int) -> None:
        m.submodules[name] = words = Memory(shape=shape, depth=depth, init=[], attrs=dict(NO_BYPASS))
        self._read, self._write = registered_read(m, words), words.write_port()
        #: What was looked at in the cycle before.
        self.data: Any = self._read.data

    def look(self, m: Module, at: ValueLike) -> None:
        """Read a word."""
        m.d.comb += self._read.addr.eq(at)

    def put(self, m: Module, at: ValueLike, word: ValueLike) -> None:
        """Write a word."""
        m.d.comb += [self._write.addr.eq(at), self._write.data.eq(word), self._write.en.eq(1)]


class Shapes:
    """Formats of the planner's memories, and addresses in them.

    ``number``: of a request, counted round twice the ring. ``key``: an ID, or that it has too many bits.
    ``latest``: of a hash, the last request in the ring, or the slot that it ``left`` its row in. ``following``: the
    next request for the same ID. ``holder``: the slot that has its row, said by the request before. ``owner``: whose
    row a slot has. ``use``: of a slot, the next request for its row, and whether there has been another one.
    """

    def __init__(self, config: AttributeConfig, depth: int, processors: int) -> None:
        self._config, self._processors = config, processors
        self.number, self.hash_bits = exact_log2(depth) + 1, exact_log2(CELLS * depth)
        self.slot_bits = ceil_log2(config.slots)
        self.rows = -(-config.slots // LANES)
        #: Words of the memory of owners, and of the largest that is cleared.
        self.owners = processors << self.slot_bits
        self.cleared = max(self.owners, depth)
        self.key = data.StructLayout({"id": config.id_bits, "beyond": 1})
        self.latest = data.StructLayout({"of": max(self.number, self.slot_bits), "left": 1})
        self.following = data.StructLayout({"valid": 1, "number": self.number})
        self.holder = data.StructLayout({"valid": 1, "slot": self.slot_bits})
        self.owner = data.StructLayout({"valid": 1, "key": self.key})
        self.use = data.StructLayout({"linked": 1, "again": 1, "number": self.number})

    def key_of(self, node: Value) -> Value:
        """Return the key of an ID."""
        return Cat(node[: self._config.id_bits], node[self._config.id_bits :].any())

    def hash_of(self, key: Any) -> Value:
        """Return the address of a key in the table: its processor, and pieces of the key, added without carries.

        A slot that the table names is one of the processor's; so no other one's IDs have the same address.
        """
        share = self.share(key)
        rest, width = key.as_value()[len(share) :], self.hash_bits - len(share)
        return Cat(share, reduce(xor, (rest[n : n + width] for n in range(0, len(rest), width)))[:width])

    def share(self, key: Any) -> Value:
        """Return whose processor's the key is, in no bits if there is one."""
        return key.id[: exact_log2(self._processors)]

    def place(self, key: Any, slot: Value) -> Value:
        """Return the address of a slot's owner."""
        return Cat(slot, self.share(key))

    def row(self, key: Any, slot: Value) -> Value:
        """Return the address of a slot's group."""
        return Cat(slot[exact_log2(LANES) :], self.share(key))

    def position(self, number: Value) -> Any:
        """Return the word of a request in the ring for the table."""
        return data.View(self.latest, Cat(number, Const(0, self.latest["of"].width - len(number)), Const(0, 1)))

    def left(self, slot: Value) -> Any:
        """Return the word of a slot for the table."""
        return data.View(self.latest, Cat(slot, Const(0, self.latest["of"].width - len(slot)), Const(1, 1)))

    def link(self, number: Value) -> Any:
        """Return the word of a next request."""
        return data.View(self.following, Cat(Const(1, 1), number))

    def held(self, valid: ValueLike, slot: Value) -> Any:
        """Return the word of a slot that has the row of a request, if it is valid."""
        return data.View(self.holder, Cat(Value.cast(valid)[:1], slot))

    def owned(self, key: Any) -> Any:
        """Return the word of a slot that has the row of an ID."""
        return data.View(self.owner, Cat(Const(1, 1), key))


class Memories:
    """The planner's memories by the names of their formats, and ``requests``, the keys in the ring."""

    def __init__(self, m: Module, shapes: Shapes) -> None:
        depth = 1 << (shapes.number - 1)
        self._shapes, self._depth = shapes, depth
        self.requests = _Words(m, "requests", shapes.key, depth)
        self.latest = _Words(m, "latest", shapes.latest, 1 << shapes.hash_bits)
        self.following = _Words(m, "following", shapes.following, depth)
        self.holder = _Words(m, "holder", shapes.holder, depth)
        self.owner = _Words(m, "owner", shapes.owner, shapes.owners)
        self.uses = _Uses(m, shapes)

    def clear(self, m: Module, at: Value) -> None:
        """Forget one of the links, and one of the slots."""
        self.following.put(m, at[: exact_log2(self._depth)], 0)
        self.owner.put(m, at[: exact_log2(self._shapes.owners)], 0)
        self.uses.clear(m, at[: exact_log2(self._shapes.owners // LANES)])


class _Uses:
    """The memory of uses: a word for each of the `LANES` slots of a group, read together and written apart."""

    def __init__(self, m: Module, shapes: Shapes) -> None:
        self._shapes = shapes
        self._lanes = [_Words(m, f"uses_{n}", shapes.use, shapes.owners // LANES) for n in range(LANES)]
        #: Uses of the group that was looked at in the cycle before.
        self.data = [lane.data for lane in self._lanes]

    def lane(self, slot: Value) -> Any:
        """Return the use of one slot of the group that was looked at."""
        return data.View(self._shapes.use, Array(each.as_value() for each in self.data)[slot[: exact_log2(LANES)]])

    def look(self, m: Module, row: Value) -> None:
        """Read a group."""
        for lane in self._lanes:
            lane.look(m, row)

    def put_use(self, m: Module, row: Value, slot: Value, linked: ValueLike, number: Value, again: ValueLike) -> None:
        """Write the use of a slot of a group."""
        word = Cat(Value.cast(linked)[:1], Value.cast(again)[:1], number)
        for n, lane in enumerate(self._lanes):
            with m.If(slot[: exact_log2(LANES)] == n):
                lane.put(m, row, word)

    def clear(self, m: Module, row: Value) -> None:
        """Forget the uses of a group."""
        for lane in self._lanes:
            lane.put(m, row, 0)
