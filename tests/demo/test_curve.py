"""The loss curve, with something that looks like matplotlib in its place: the real one is an extra."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rushlight.demo import curve

STAND_IN = '''
"""Notes what is drawn."""
calls = []

class Axes:
    def __getattr__(self, name):
        return lambda *values, **style: calls.append((name, [list(value) if hasattr(value, "__iter__") else value
                                                             for value in values], style.get("label")))

class Figure:
    def __init__(self, figsize, layout): pass
    def subplots(self): return Axes()
    def savefig(self, path): path.write_text("<svg/>")
'''


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "site" / "matplotlib").mkdir(parents=True)
    (tmp_path / "site" / "matplotlib" / "__init__.py").touch()
    (tmp_path / "site" / "matplotlib" / "figure.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    assert curve.can_draw()
    module: Any = __import__("matplotlib.figure")
    return module.figure


def test_all_losses_are_drawn(tmp_path: Path, stand_in: ModuleType):
    curve.draw_curve(tmp_path / "loss.svg", [3.0, 2.0, 1.0], [(2, 2.5), (3, 1.5)], 1.25)
    assert ("plot", [[1, 2, 3], [3.0, 2.0, 1.0]], "training") in stand_in.calls
    assert ("plot", [[2, 3], [2.5, 1.5]], "held out") in stand_in.calls
    assert ("axhline", [1.25], "4-gram") in stand_in.calls
    assert (tmp_path / "loss.svg").exists()


def test_a_run_without_estimates_is_drawn(tmp_path: Path, stand_in: ModuleType):
    curve.draw_curve(tmp_path / "loss.svg", [3.0], [], 1.25)
    assert [label for name, _, label in stand_in.calls if name == "plot"] == ["training"]


def test_without_matplotlib_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    assert not curve.can_draw()
