"""Commands in the shell blocks of pages run, in the order of their page; of those that do not a table says why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.test_blocks import blocks
from tests.docs.test_commands import FENCED, PAGES, ROOT, parts_of

# What pages tell their readers to have.
SCRIPT = "import rushlight as rl\nprint(rl.compile(lambda x: (x * 2).relu())(rl.ones(8)))\n"
TRAIN = "import sys\nimport torch\nprint(torch.nn.Linear(4, 2)(torch.ones(3, 4)).shape, sys.argv[1:])\n"
RANKS = "import torch\nimport torch.distributed as dist\ndist.init_process_group()\ndist.all_reduce(torch.ones(8))\n"
RUN: dict[str, dict[str, str]] = {
    "docs/caches.md": {},
    "docs/how-to/devices.md": {},
    "docs/how-to/looking-inside.md": {"script.py": SCRIPT},
    "docs/how-to/many-ranks.md": {"train.py": RANKS},
    "docs/opbench.md": {},
    "docs/recsys-planner.md": {},
    "docs/tile.md": {},
    "docs/torch-alias.md": {"train.py": TRAIN, "package/__init__.py": "", "package/train.py": TRAIN},
    "devlog/2026-11-28-four-thousand-ranks-on-a-laptop.md": {"train.py": RANKS},
}
LEFT_OUT = {
    "installs packages": r"pip install|python -m tools\.packages",
    "is the suite itself, or a test of it": r"(RUSHLIGHT_POISON=255 )?pytest\b",
    "measures for minutes or hours": r"rushlight (bench|opbench (?!--list)|tune (mm|exhaustive)|emb calibrate)",
    "is a campaign of hours": r"python (tests/interleavings|-m tools\.(ulp_sweep|cpython_tests|fuzz))|cd packages",
    "is a server and a question to it, which tests/cli/test_embeddings.py starts": r"rushlight emb serve|curl ",
    "needs weights that are not here": r"rushlight (embed|chat)",
    "trains for minutes; tests/cli/test_demo_command.py runs it smaller": r"rushlight demo",
    "takes the reader's program; tests/repro and tests/cli/test_packaging.py take others": (
        r"rushlight (shrink|bisect|diff|aot) |cc |\./a\.out"
    ),
}


def commands(path: Path) -> Iterator[str]:
    """The commands in the shell blocks of a page, where its language and not its output begins the line."""
    for block in FENCED.findall(path.read_text(encoding="utf-8")):
        lines = block.splitlines()
        asked = [line for line in lines if line.startswith("$ ")] or lines
        yield from [part for line in asked if not line.startswith(" ") for part in parts_of(line)]


def reason(command: str) -> str | None:
    """Why a command is not run."""
    return next((why for why, pattern in LEFT_OUT.items() if re.match(pattern, command)), None)


@pytest.mark.parametrize("path", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_a_command_runs_or_there_is_a_reason(path: Path):
    runs = path.relative_to(ROOT).as_posix() in RUN
    assert [command for command in commands(path) if not runs and reason(command) is None] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run(name: str, tmp_path: Path):
    path, files = ROOT / name, dict(RUN[name])
    for language, text, _ in blocks(path):
        if language == "toml" and "[[table]]" in text:
            files["tables.toml"] = text
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    run = [command for command in commands(path) if reason(command) is None]
    assert run
    for command in run:
        ended = executed(command, tmp_path)
        assert ended.returncode == 0, f"{command}: {ended.stderr}"


def executed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of this environment in a folder, with a cache of its own."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    variables = {**os.environ, "PATH": tools, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(command, shell=True, cwd=folder, env=variables, check=False, capture_output=True, text=True)
