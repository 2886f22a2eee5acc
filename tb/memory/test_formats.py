"""Payloads of the memory side's streams."""

import pytest

from hw.memory.formats import (
    RangeBeat,
    RangeRequest,
    ReadBeat,
    ReadRequest,
    Word,
    WriteRequest,
    beat_address_width,
    check_port,
    line_address_width,
)


@pytest.mark.parametrize(("data_width", "beat_address"), [(64, 29), (128, 28), (256, 27)])
def test_addresses_count_beats_words_and_lines(data_width: int, beat_address: int) -> None:
    assert beat_address_width(32, data_width) == beat_address
    assert line_address_width(32) == 26
    assert ReadRequest(32, data_width).size == beat_address + 4
    assert ReadBeat(data_width).size == data_width + 2
    assert RangeRequest(32).size == 30 + 32
    assert RangeBeat(data_width).size == data_width + data_width // 32 + 2
    assert Word().size == 32 + 3
    assert WriteRequest(32, data_width).size == beat_address + data_width + data_width // 8


@pytest.mark.parametrize(
    ("address_width", "data_width", "message"),
    [
        (12, 64, r"address_width must be in 13\.\.64, not 12"),
        (65, 64, r"address_width must be in 13\.\.64, not 65"),
        (32, 32, r"data_width must be 64, 128 or 256, not 32"),
        (32, 512, r"data_width must be 64, 128 or 256, not 512"),
    ],
)
def test_unsupported_ports_are_refused(address_width: int, data_width: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_port(address_width, data_width)


@pytest.mark.parametrize(("address_width", "data_width"), [(13, 64), (64, 256), (32, 128)])
def test_supported_ports_pass(address_width: int, data_width: int) -> None:
    check_port(address_width, data_width)
