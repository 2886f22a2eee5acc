from pathlib import Path

from golden.datasets import bundled, molecules, synthetic

TEXT = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()


def test_every_name_and_key_is_documented_with_its_default() -> None:
    for name in (*bundled.GRAPHS, *synthetic.KINDS, molecules.NAME):
        assert f"`{name}`" in TEXT
    for key, default in [*vars(synthetic.Options()).items(), *vars(molecules.Options()).items()]:
        assert f"| `{key}` | {default:g} |" in TEXT
