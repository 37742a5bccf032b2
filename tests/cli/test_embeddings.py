"""`rushlight emb`: plans from texts, statistics, checks."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rushlight.cli.app import app
from rushlight.recsys.planner import Plan
from rushlight.support.errors import RushlightError

TEXT = """
batch_size = 64
reserve = 0.1
[topology]
world_size = 2
[[table]]
name = "user"
rows = 50_000
columns = 64
pooling_factors = [20.0]
[[table]]
name = "item"
rows = 1000
columns = 16
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["emb", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "tables.toml"
    path.write_text(TEXT)
    return path


@pytest.mark.row("9.2")
def test_plan_stats_and_check(described: Path, tmp_path: Path):
    made = tmp_path / "plan.toml"
    assert run("plan", str(described)) == run("plan", str(described))
    figures = run("plan", str(described), "-o", str(made), "--stats")
    assert Plan.parse(made.read_text())["user"].table.rows == 50_000
    assert run("stats", str(made), "--svg", str(tmp_path / "plan.svg")) == figures
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    assert "In its place" in run("stats", str(made), "--explain", "user")
    assert "2 tables on 2 ranks" in run("check", str(made), str(described))
    described.write_text(TEXT.replace("50_000", "50_001"))
    with pytest.raises(RushlightError, match="user"):
        run("check", str(made), str(described))
    with pytest.raises(RushlightError, match="cannot be read"):
        run("check", str(tmp_path))


def test_a_plan_that_was_edited_beyond_memory_is_found(described: Path, tmp_path: Path):
    described.write_text(TEXT.replace("world_size = 2", "world_size = 2\nddr_cap = 10_000_000"))
    made = tmp_path / "plan.toml"
    run("plan", str(described), "-o", str(made))
    head, user, item = made.read_text().split("[[table]]")
    assert "shard_rows = 25000\n" in user
    user = user.replace("row_wise", "table_wise").replace("shard_rows = 25000\n", "").replace('"all"', "[0]")
    made.write_text("[[table]]".join([head, user, item]))
    with pytest.raises(RushlightError, match="bytes of ddr"):
        run("check", str(made))
