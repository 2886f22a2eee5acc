"""Areas by hierarchy and by device."""

import pytest

from contracts.errors import InputError
from scripts.blocks import find
from scripts.flows import area_tree
from scripts.flows.area_tree import Node, rows
from scripts.flows.devices import ECP5, XILINX, device_of
from scripts.flows.synth import synth


def leaf(name: str, luts: int) -> Node:
    return Node(name, name, {"LUT4": luts}, ())


def test_equal_parts_are_one_row_and_small_ones_none() -> None:
    parts = (leaf("pe_0", 40), leaf("pe_1", 40), leaf("pe_2", 15), leaf("tiny", 1))
    top = Node("top", "top", {"LUT4": 100, "TRELLIS_FF": 7, "CCU2C": 2, "DP16KD": 3}, parts)
    assert list(rows(top, ECP5, least=0.05)) == [
        ("top", 104, 7, 0, 3, "100.0"),
        ("  pe_0 ×2", 80, 0, 0, 0, "76.9"),
        ("  pe_2", 15, 0, 0, 0, "14.4"),
    ]


def test_parts_of_a_repeated_part_are_counted_as_often() -> None:
    group = [Node(f"group_{n}", "group", {"LUT4": 50}, (leaf("pe_0", 20), leaf("pe_1", 20))) for n in range(2)]
    top = Node("top", "top", {"LUT4": 100}, tuple(group))
    assert [row[:2] for row in rows(top, ECP5)] == [("top", 100), ("  group_0 ×2", 100), ("    pe_0 ×4", 80)]


def test_tree_of_a_block_holds_its_submodules() -> None:
    (block,) = find("memory.fetcher")
    top = area_tree.area_tree(block, ECP5)
    assert {part.name for part in top.parts} == {"slice", "store"}
    luts, ffs, _, brams = ECP5.figures(top.cells)
    area = synth(block, fmax=False)
    assert brams == area.brams == 8
    assert ffs >= area.ffs
    assert luts >= sum(ECP5.luts(part.cells) for part in top.parts) > 0


def test_area_for_the_other_device() -> None:
    (block,) = find("stream.queue")
    area = synth(block, device=XILINX)
    assert area.fmax is None
    assert area.luts > 0
    assert area.ffs > 0
    assert (area.dsps, area.brams) == (0, 0)


def test_unknown_device_is_named() -> None:
    with pytest.raises(InputError, match="--device: is 'gowin'; expected ecp5 or xilinx"):
        device_of("gowin")
