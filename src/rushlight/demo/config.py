"""Configs of runs: the model's shape, the plan of training, and the way it is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen


@dataclass(frozen=True, slots=True)
class Config:
    """The model and how it is trained. Two runs of equal configs have the same losses and checkpoints, to the last bit.

    Learning rates rise linearly over `warm_up` steps to `learning_rate` and fall along a cosine to the share
    `final_rate` of it. Sizes are in bytes of text: `context` is what the model sees at once, a batch has `batch`
    windows of it.
    """

    layers: int = 4
    heads: int = 4
    width: int = 256
    context: int = 128
    batch: int = 16
    steps: int = 1200
    seed: int = 0
    learning_rate: float = 2e-3
    final_rate: float = 0.05
    warm_up: int = 100
    weight_decay: float = 0.1
    evaluate_every: int = 100
    save_every: int = 100
    held_out_windows: int = 64
    final_windows: int = 512

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "width", "context", "batch", "steps", "evaluate_every", "save_every"):
            value = getattr(self, name)
            require(value > 0, "A002", f"demo: {name} must be at least 1", **{name: value})
        hint = "the width is divided among the heads"
        require(self.width % self.heads == 0, "A002", "demo: heads must divide width", hint=hint, heads=self.heads)

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warm_up = min(self.warm_up, max(1, self.steps // 5))
        if step < warm_up:
            return self.learning_rate * (step + 1) / warm_up
        done = (step - warm_up) / max(1, self.steps - warm_up)
        return self.learning_rate * (self.final_rate + (1 - self.final_rate) * 0.5 * (1 + math.cos(math.pi * done)))

    @property
    def tokens_per_step(self) -> int:
        """Bytes that one step learns to predict."""
        return self.batch * self.context

    def changed(self, values: Mapping[str, object]) -> Config:
        """A copy with some fields changed; text is read as a number. A002 for a field that there is not."""
        fields = asdict(self)
        for name, value in values.items():
            if name not in fields:
                fail("A002", f"demo: there is no field {name} in the config", hint=f"one of {', '.join(fields)}")
            try:
                fields[name] = type(fields[name])(value)
            except ValueError:
                fail("A002", f"demo: {name} is a number", value=value)
        return Config(**fields)

    def to_dict(self) -> dict[str, float]:
        """The fields by name."""
        return asdict(self)

    @staticmethod
    def from_dict(values: object) -> Config:
        """The config of a checkpoint; P005 when it is not one of ours."""
        kinds = {field.name: type(field.default) for field in fields(Config)}
        if not isinstance(values, dict) or {name: type(value) for name, value in values.items()} != kinds:
            fail("P005", "demo: the checkpoint's config is not one of this demo")
        return Config(**values)


@frozen
class Way:
    """How a run is computed, which changes its speed but not its losses: uncompiled, on how many threads, and where.

    `threads` of 0 means as many as this process may use. On several ranks `parallel` says how the model lies on them;
    its losses are then those of one process but for the order of sums.
    """

    eager: bool = False
    threads: int = 0
    device: str = "cpu"
    parallel: str = ""
