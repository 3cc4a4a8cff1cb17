"""`bayesprune run --dry-run`: a price, and nothing on disk."""

from bayesprune.cli import main


def test_a_dry_run_says_the_price_and_writes_nothing(tmp_path, capsys) -> None:
    out = tmp_path / "run"
    words = ["run", "--dataset", "digits", "--steps", "40", "--mlp.hidden", "8", "--dry-run", "--out", str(out)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("Price(") and "40 steps of" in said and "on disk" in said
    assert not out.exists()
