"""Models in PyTorch's API."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.bench.records import Work

MODELS: dict[str, Callable[..., Work]] = {}
