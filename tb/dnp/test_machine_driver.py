"""The driver of an array behind AXI without a simulation: what it refuses, and streams that are a file."""

import socket
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from contracts import VERSION
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import Space
from contracts.dnp.topology import Grid
from contracts.registers import ARRAY_MAGIC, array_register
from golden.dnp.array import ArrayModel
from golden.dnp.loading import Block, contents
from sim.dnp.machine_driver import DeviceStreams, MachineDriver
from sim.driver import DriverError, now

CORE = ProcessorConfig(wm_depth=8, xm_depth=6, p_depth=10, table_bits=1)


class Played:
    """Registers that hold what a test says, and streams that bring nothing."""

    def __init__(self, **values: dict[str, int]) -> None:
        fields = {
            "ID": {"magic": ARRAY_MAGIC}, "VERSION": {"version": VERSION}, "SIZE": {"rows": 4, "columns": 2}, **values,
        }  # fmt: skip
        self.values = {array_register(name).address: array_register(name).layout.pack(f) for name, f in fields.items()}
        self.packets: list[list[int]] = []

    async def read(self, address: int) -> int:
        """Return what the test says, or 0."""
        return self.values.get(address, 0)

    async def write(self, address: int, value: int) -> None:
        """Take no notice."""

    async def wait(self) -> None:
        """Return at once."""

    async def send(self, packet: Sequence[int]) -> None:
        """Keep the packet."""
        self.packets.append(list(packet))

    async def receive(self) -> list[int]:
        """Bring nothing."""
        return []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ID": {"magic": 5}}, "register ID: 0x00000005, expected 0x4e4f5441: this is no array"),
        ({"VERSION": {"version": VERSION + 1}}, f"register VERSION: {VERSION + 1}, expected {VERSION}"),
        ({"SIZE": {"rows": 4, "columns": 4}}, "register SIZE: 4 x 4, expected 4 x 2"),
    ],
)
def test_another_device_is_refused(values: dict[str, dict[str, int]], said: str) -> None:
    played = Played(**values)
    with pytest.raises(DriverError, match=said):
        now(MachineDriver(played, played).load(ArrayModel(CORE, Grid(4, 2))))
    assert not played.packets


def test_what_never_happens_is_given_up() -> None:
    played = Played()
    driver = MachineDriver(played, played, patience=2)
    now(driver.identify())
    with pytest.raises(DriverError, match="no packet after 3 waits, expected 0 of 4 words of processor 3"):
        now(driver.read(3, Space.WM, 0, 4))
    with pytest.raises(DriverError, match="register WORDS_LOADED: 0 after 3 waits, expected 3"):
        now(driver.start())
    played = Played(ERROR={"error": 5}, INFO={"info": 0x30001})
    with pytest.raises(DriverError, match="register ERROR: RANGE, info 0x30001, expected none"):
        now(MachineDriver(played, played).finish())


def test_words_that_were_loaded_as_0_are_sent_and_shared_ones_once() -> None:
    machine = ArrayModel(CORE, Grid(2, 2))
    for processor in range(4):
        machine.load(processor, [7, 8, 9 + (processor == 2)], {0: 5, 3: 0}, {1: -1})
    blocks = list(contents(machine))
    assert blocks[0] == Block(None, Space.PROGRAM, 0, [7, 8])
    assert blocks[1:5] == [Block(p, Space.PROGRAM, 2, [9 + (p == 2)]) for p in range(4)]
    assert blocks[5:] == [Block(None, Space.WM, 0, [5, 0, 0, 0]), Block(None, Space.XM, 0, [0, -1])]
    assert blocks[4].frame(machine.grid)[1:] == [2, 1, 9]


def test_a_file_carries_packets_both_ways() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with DeviceStreams(near.detach(), pause=0.01) as streams:
        now(streams.send([1, 0xFFFFFFFF]))
        assert far.recv(100) == struct.pack("=2I", 1, 0xFFFFFFFF)
        assert now(streams.receive()) == []
        far.send(struct.pack("=3I", 4, 5, 6))
        assert now(streams.receive()) == [4, 5, 6]
    far.close()


def test_packets_are_taken_while_none_can_be_sent() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    packet = list(range(2000))
    far.send(struct.pack("=1I", 77))

    def drain() -> None:
        time.sleep(0.2)
        for _ in range(200):
            far.recv(1 << 16)

    thread = threading.Thread(target=drain)
    thread.start()
    with DeviceStreams(near.detach()) as streams:
        for _ in range(200):
            now(streams.send(packet))
        assert now(streams.receive()) == [77]
        thread.join()
    far.close()


def test_a_device_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="nothing: cannot open"):
        DeviceStreams(tmp_path / "nothing")


def test_words_of_a_sample_go_to_its_ports_in_turn() -> None:
    played = Played(BUFFERS={"port": 2})
    driver = MachineDriver(played, played)
    now(driver.identify())
    rng = np.random.default_rng(0)
    words = {(1, 0): rng.integers(-9, 9, 3).tolist(), (2, 1): rng.integers(-9, 9, 5).tolist()}
    now(driver.feed([words, {}]))
    ((*packet,),) = played.packets
    edges = Grid(4, 2).edges()
    places = [edges[beat >> 16 & 0xFFF] for beat in packet]
    assert places == [(1, 0)] * 2 + [(2, 1)] * 2 + [(1, 0)] + [(2, 1)] * 3
    for edge, sent in words.items():
        assert [beat & 0xFFFF for beat, place in zip(packet, places, strict=True) if place == edge] == [
            word & 0xFFFF for word in sent
        ]
