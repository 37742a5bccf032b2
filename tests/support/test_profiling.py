"""Profiles of what is traced, exported and compiled."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.support import settings
from rushlight.support.profiling import profiled


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def dawdle(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def read(folder: Path, kind: str) -> tuple[dict[str, Any], str]:
    """The profile and the list of the one thing of a kind that was profiled."""
    (profile,) = folder.glob(f"{kind}-*.speedscope.json")
    (listed,) = folder.glob(f"{kind}-*.txt")
    return json.loads(profile.read_text()), listed.read_text()


@pytest.mark.row("10.9")
def test_a_profile_has_the_stacks_and_how_long_they_took(tmp_path: Path):
    with settings.override(compile_profile=str(tmp_path)), profiled("outer"), profiled("inner"):
        spin(0.3)
    content, listed = read(tmp_path, "outer")
    assert not list(tmp_path.glob("inner-*"))  # it is part of the one around it
    (profile,) = content["profiles"]
    names = [frame["name"] for frame in content["shared"]["frames"]]
    spinning = [spent for stack, spent in zip(profile["samples"], profile["weights"]) if names[stack[-1]] == "spin"]
    assert 150 < sum(spinning) <= profile["endValue"]
    assert names[profile["samples"][0][0]] == "<module>" or len(profile["samples"][0]) > 3  # outermost first
    assert "ms  spin (" in listed and listed.startswith("outer-")


@pytest.mark.row("10.9")
def test_exports_and_compilations_are_profiled(tmp_path: Path):
    spinning, dawdling = rl.compiler.allow_in_graph(spin), rl.compiler.allow_in_graph(dawdle)

    def slow(x: Any) -> Any:
        spinning(0.1)
        dawdling(0.3)
        return x + 1

    with settings.override(compile_profile=str(tmp_path)):
        rl.export.export(slow, (rl.ones(3),), dynamic_shapes="f32[n]")
        rl.compile(slow, fullgraph=True)(rl.ones(3))
    for kind in ("export", "compile"):
        content, listed = read(tmp_path, kind)
        names = {frame["name"] for frame in content["shared"]["frames"]}
        assert "spin" in names and any(name.startswith("Recorder.run") for name in names)
        assert listed.index("dawdle") < listed.index("spin")  # where most time went is first
        own = [float(found) for found in re.findall(r"([\d.]+) ms  ", listed)]
        assert len(own) >= 2
        assert own == sorted(own, reverse=True)


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path):
    with profiled("export"):
        assert settings.get().compile_profile == ""
