"""`atoll generate machine`: which machine a configuration stands for."""

from pathlib import Path

import pytest

from contracts.errors import InputError
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.gather_engine import GatherEngine
from hw.community.engine import CommunityEngine
from hw.host.hosted import Hosted
from scripts.config import load_machine, names
from scripts.flows.generate import header, port_list
from scripts.machine import machine_block


@pytest.mark.parametrize("config", names())
def test_every_configuration_is_a_machine_with_the_buses_of_its_kind(config: str) -> None:
    block = machine_block(config)
    machine = block.make()
    assert isinstance(machine, Hosted)
    ports = {port["name"] for port in port_list(machine)}
    assert {"s_axil_awvalid", "m_axi_araddr", "irq"} <= ports
    sizes, chiplet = load_machine(config), machine.machine
    assert isinstance(chiplet, Chiplet)
    ring = block.name.endswith("_ring")
    units = {"ring": ring, "attribute_core": sizes.units.attributes, "neural_unit": sizes.units.neural}
    assert list(chiplet.units) == [name for name, there in units.items() if there]
    assert ("s_axis_tdata" in ports) == ring
    assert type(chiplet.engine) is (CommunityEngine if sizes.chiplet.kind == "community" else GatherEngine)


def test_the_number_of_chiplets_decides_about_the_ring(tmp_path: Path) -> None:
    assert machine_block("small", 1).module == "machine_small"
    assert machine_block("small", 2).module == "machine_small_ring"
    mine = tmp_path / "My-Sizes.toml"
    mine.write_text("[pe]\nlanes = 4\nmax_out = 32\n")
    block = machine_block(str(mine))
    assert block.module == "machine_my_sizes"
    assert block.shown is not None
    assert "//   pe.lanes = 4\n" in header(block.name, block.shown)


def test_an_unknown_configuration_is_refused() -> None:
    with pytest.raises(InputError, match="configuration huge: is no file; expected a path or one of"):
        machine_block("huge")
