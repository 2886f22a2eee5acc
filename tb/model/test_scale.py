from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import Model
from contracts.errors import InputError
from contracts.scale import Scales, scales_of
from golden.model.scale import scales_of_model


def test_one_is_8000_and_0() -> None:
    scales = scales_of([1.0])
    assert (int(scales.mantissa[0]), int(scales.exponent[0])) == (0x8000, 0)


def test_zero_has_no_mantissa() -> None:
    assert scales_of([0.0]).mantissa[0] == 0


@settings(deadline=None)
@given(st.floats(2.0**-31, 2 - 2.0**-15))
def test_a_factor_is_off_by_at_most_half_a_unit(factor: float) -> None:
    scales = scales_of([factor])
    unit = Fraction(1, 1 << (15 + int(scales.exponent[0])))
    assert scales.mantissa[0] >= 0x8000
    assert abs(scales.fraction(0) - Fraction(factor)) <= unit / 2
    assert Fraction(float(scales.real()[0])) == scales.fraction(0)


def test_rounding_carries_into_the_next_power_of_two() -> None:
    scales = scales_of([0.5 - 2.0**-30])
    assert (int(scales.mantissa[0]), int(scales.exponent[0])) == (0x8000, 1)


@pytest.mark.parametrize("factor", [2.0, -0.5, 2.0**-33, float("nan"), float("inf")])
def test_a_factor_without_scale_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="scales: the factor"):
        scales_of([factor])


Factors = npt.NDArray[np.float64]
DEGREES = np.array([0, 1, 2, 3, 8, 168, 65535])


@pytest.mark.parametrize(
    ("model", "source", "destination"),
    [
        (Model.GCN, (DEGREES + 1.0) ** -0.5, (DEGREES + 1.0) ** -0.5),
        (Model.SAGE, np.ones(7), 1 / (DEGREES + 1.0)),
        (Model.GIN, np.ones(7), np.ones(7)),
    ],
)
def test_models_have_the_factors_of_their_normalisation(model: Model, source: Factors, destination: Factors) -> None:
    scales = scales_of_model(model, DEGREES)
    np.testing.assert_allclose(scales[0].real(), source, rtol=2.0**-16)
    np.testing.assert_allclose(scales[1].real(), destination, rtol=2.0**-16)


@pytest.mark.parametrize(
    ("mantissa", "exponent", "message"),
    [
        (np.array([1], dtype=np.uint16), np.array([0], dtype=np.uint8), "not normalised"),
        (np.array([0x8000], dtype=np.uint16), np.array([32], dtype=np.uint8), "exponent is 32"),
        (np.array([0x8000]), np.array([0], dtype=np.uint8), "int64 and uint8"),
        (np.array([0x8000], dtype=np.uint16), np.array([], dtype=np.uint8), "shapes"),
    ],
)
def test_scales_check_themselves(mantissa: object, exponent: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Scales(mantissa, exponent)  # type: ignore[arg-type]


def test_scales_are_taken_in_the_order_named() -> None:
    scales = scales_of([1.0, 0.5, 0.25])
    assert scales.take([2, 0]).real().tolist() == [0.25, 1.0]
