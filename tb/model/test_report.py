import pytest

from golden.model.report import main, table
from golden.model.training import Training


def test_the_table_has_a_line_for_every_model() -> None:
    lines = table(["karate"], Training(epochs=30)).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [["| karate", name] for name in ("GCN", "SAGE", "GIN")]
    for line in lines[2:]:
        floating, machine, agreement = (float(cell) for cell in line.strip("| ").split(" | ")[2:])
        assert abs(floating - machine) <= 0.5
        assert agreement >= 99


def test_a_data_set_that_does_not_exist_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere"]) == 2
    assert capsys.readouterr().err.startswith("data set: there is no 'nowhere'; expected one of digits")
