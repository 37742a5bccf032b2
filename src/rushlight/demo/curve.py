"""The picture of a run's losses, drawn by matplotlib where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SIZE_INCHES = (7.0, 4.0)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_curve(path: Path, losses: Sequence[float], held_out: Sequence[tuple[float, float]], four_gram: float) -> None:
    """Draws the loss of each step, the held-out losses as (step, loss), and the 4-gram's as a line."""
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=SIZE_INCHES, layout="tight")
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, linewidth=0.8, color="tab:gray", label="training")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), marker="o", markersize=3, color="tab:orange", label="held out")
    axes.axhline(four_gram, linestyle="--", linewidth=0.8, color="tab:blue", label="4-gram")
    axes.set(xlabel="step", ylabel="nats per byte")
    axes.legend()
    figure.savefig(path)
