from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contracts.errors import InputError
from golden.model.rounding import requantise
from tb.model.reference import rounded


def signed(bits: int) -> st.SearchStrategy[int]:
    """Numbers of every magnitude up to a width, extremes included."""
    widths = st.integers(1, bits)
    return widths.flatmap(lambda width: st.integers(-(1 << (width - 1)), (1 << (width - 1)) - 1))


def by_fractions(value: int, mantissa: int, exponent: int, shift: int, bias: int) -> int:
    return rounded(Fraction(value * mantissa, 1 << (shift + exponent)) + Fraction(bias, 1 << shift))


@settings(deadline=None, max_examples=1500)
@given(signed(48), st.integers(0, 65535), st.integers(0, 31), st.integers(0, 63), signed(32))
@example(-(1 << 47), 65535, 31, 63, -(1 << 31))
@example((1 << 47) - 1, 65535, 31, 0, (1 << 31) - 1)
@example((1 << 47) - 1, 65535, 1, 63, 0)
@example(-1, 1, 0, 63, 0)
@example(-1, 0x8000, 31, 63, 0)
def test_every_legal_input_is_rounded_exactly(value: int, mantissa: int, exponent: int, shift: int, bias: int) -> None:
    assert requantise(value, mantissa, exponent, shift, bias) == by_fractions(value, mantissa, exponent, shift, bias)


@pytest.mark.parametrize(
    ("value", "result"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2), (-2, 0), (-3, -1), (-6, -2), (-7, -2)]
)
def test_ties_go_to_even(value: int, result: int) -> None:
    assert requantise(value, 1, 0, 2) == result


@pytest.mark.parametrize("wide", [False, True])
def test_rows_of_scales_and_columns_of_biases_broadcast(wide: bool) -> None:
    rng = np.random.default_rng(7)
    # A narrow matrix takes the int64 path, one wide element sends all of them through Python integers.
    values = rng.integers(-(1 << 30), 1 << 30, (5, 3))
    values[0, 0] = (1 << 47) - 1 if wide else values[0, 0]
    mantissa, exponent = rng.integers(1 << 15, 1 << 16, (5, 1)), rng.integers(0, 5, (5, 1))
    biases = rng.integers(-(1 << 31), 1 << 31, 3)
    result = requantise(values, mantissa, exponent, 30, biases)
    expected = [
        [
            by_fractions(int(values[i, j]), int(mantissa[i, 0]), int(exponent[i, 0]), 30, int(biases[j]))
            for j in range(3)
        ]
        for i in range(5)
    ]
    assert result.dtype == np.int16
    assert result.tolist() == expected


@pytest.mark.parametrize("bound", [(1 << 62) - 1, 1 << 62])
def test_both_paths_agree_on_either_side_of_their_border(bound: int) -> None:
    # 2^62 is reached by value 2^47 - 1, mantissa 2^15 and a bias that makes up the rest.
    value, mantissa = (1 << 47) - 1, 1 << 15
    bias = bound - value * mantissa
    for shift in (46, 47, 48, 61, 62, 63):
        for sign in (1, -1):
            assert requantise(sign * value, mantissa, 0, shift, sign * bias) == by_fractions(
                sign * value, mantissa, 0, shift, sign * bias
            )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("value", (1 << 47, 1, 0, 0, 0)),
        ("value", (-(1 << 47) - 1, 1, 0, 0, 0)),
        ("mantissa", (0, 65536, 0, 0, 0)),
        ("exponent", (0, 1, 32, 0, 0)),
        ("shift", (0, 1, 0, 64, 0)),
        ("shift", (0, 1, 0, -1, 0)),
        ("bias", (0, 1, 0, 0, 1 << 31)),
    ],
)
def test_input_out_of_range_is_refused_by_name(name: str, arguments: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(InputError, match=f"^{name}: spans .* expected "):
        requantise(*arguments)


def test_a_real_number_is_refused() -> None:
    with pytest.raises(InputError, match="value: is float64; expected integers"):
        requantise(0.5, 1, 0, 0)


def test_nothing_in_gives_nothing_out() -> None:
    assert requantise(np.zeros((0, 4), dtype=np.int64), np.zeros((0, 1), dtype=np.int64), 0, 3).shape == (0, 4)
