"""A model in training: its step, its held-out loss, its state; and the loop that drives it."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.demo.config import Config, Way
from rushlight.demo.corpus import Corpus
from rushlight.demo.model import GPT
from rushlight.demo.parallel import Ranks, divided, divided_as, whole
from rushlight.demo.run_folder import RunFolder
from rushlight.demo.training import make_held_out, make_next_byte, make_optimizer, make_step, set_rate
from rushlight.support.errors import error, fail

Tokens = NDArray[np.int64]


class Watcher(Protocol):
    """Is told how training goes."""

    def stepped(self, step: int, loss: float, tokens_per_second: float) -> None:
        """After each step, counted from 1."""

    def estimated(self, step: int, held_out: float) -> None:
        """After each estimate of the held-out loss."""


class Trainer:
    """Model and optimizer of a config, and the functions over them, compiled unless the way is eager."""

    def __init__(self, config: Config, way: Way) -> None:
        self.config = config
        self.device = rl.zeros(0, device=way.device).device
        self.step = 0
        rl.manual_seed(config.seed)
        self.model = GPT(config.layers, config.heads, config.width, config.context).to(self.device)
        self.ranks = Ranks(way.parallel, config.batch) if way.parallel else None
        call = self.ranks.spread(self.model, way.eager) if self.ranks else None
        self.optimizer = make_optimizer(self.model, config.learning_rate, config.weight_decay)
        compiled = (lambda function: function) if way.eager or self.ranks else rl.compile
        self.functions: dict[str, Callable[[rl.Tensor], Any]] = {
            "training step": compiled(make_step(self.model, self.optimizer, call)),
            "held-out loss": compiled(make_held_out(self.model)),
            "next byte": compiled(make_next_byte(self.model)),
        }

    def advance(self, windows: Tokens) -> tuple[float, float]:
        """One step of training; its loss before the step, and the norm of its gradients before clipping."""
        self.model.train()
        set_rate(self.optimizer, self.config.rate(self.step))
        part = self.ranks.part(windows) if self.ranks else windows
        loss, norm = self.functions["training step"](self.tensor(part))
        self.step += 1
        return (self.ranks.mean(loss) if self.ranks else loss).item(), norm.item()

    def held_out(self, windows: Tokens) -> float:
        """Mean loss of windows, computed in parts of a batch's size."""
        self.model.eval()
        total = 0.0
        for start in range(0, len(windows), self.config.batch):
            part = windows[start : start + self.config.batch]
            total += self.functions["held-out loss"](self.tensor(part)).item() * len(part)
        return total / len(windows)

    def next_byte(self, tokens: Tokens) -> NDArray[np.float32]:
        """Logits [256] of the byte that follows tokens [1, length]."""
        self.model.eval()
        return self.functions["next byte"](self.tensor(tokens)).cpu().numpy()

    def tensor(self, tokens: Tokens) -> rl.Tensor:
        """Tokens as a tensor where the model is."""
        return rl.from_numpy(tokens).to(self.device)

    def state(self) -> dict[str, object]:
        """All that the next step depends on beside the config and the step's number."""
        model, optimizer = self.model.state_dict(), self.optimizer.state_dict()
        state: dict[str, object] = {"model": model, "optimizer": optimizer, "generator": rl.get_rng_state()}
        return whole(state) if self.ranks else state

    def restore(self, step: int, state: Mapping[str, Any]) -> None:
        """Takes back a state; P005 or P004 when it is another model's."""
        parameters: dict[str, rl.Tensor] = dict(self.model.named_parameters())
        values = {name: divided_as(value, parameters.get(name)) for name, value in state["model"].items()}
        self.model.load_state_dict(values)
        try:
            self.optimizer.load_state_dict(self._divided(state["optimizer"]))
            rl.set_rng_state(state["generator"])
        except (KeyError, TypeError, ValueError) as cause:
            raise error("P005", "demo: the checkpoint's optimizer state is not this demo's") from cause
        self.step = step

    def stops(self, requested: bool) -> bool:
        """Whether training stops here, since this rank or another one was asked to."""
        return self.ranks.any(requested) if self.ranks else requested

    def _divided(self, optimizer: Mapping[str, Any]) -> dict[str, Any]:
        """An optimizer's state on this rank."""
        parameters = [one for group in self.optimizer.param_groups for one in group["params"]]
        return {**optimizer, "state": {at: divided(one, parameters[at]) for at, one in optimizer["state"].items()}}


class Interrupts:
    """Ctrl-C asks politely: the loop looks at `requested` between steps. A second one is a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.requested = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def watch_interrupts() -> Generator[Interrupts]:
    """Takes over Ctrl-C inside the scope, where this thread may, and restores the old handler."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, interrupts.note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def train(trainer: Trainer, corpus: Corpus, run: RunFolder, watcher: Watcher, interrupts: Interrupts) -> float:
    """Trains to the config's last step, or until interrupted, and saves. Returns the seconds of training.

    The log keeps the lines up to the trainer's step. R006 when a loss or a gradient is not finite; the last checkpoint
    is from before that.
    """
    config = trainer.config
    kept = [line for line in run.lines() if line.get("step", math.inf) <= trainer.step]
    held_out_windows = corpus.held_out_windows(config.held_out_windows, config.context + 1)
    spent = kept[-1]["seconds"] if kept else 0.0
    with run.logging(kept) as append:
        run.save(config, trainer.step, trainer.state())
        begun = time.perf_counter() - spent
        while trainer.step < config.steps and not trainer.stops(interrupts.requested):
            started = time.perf_counter()
            windows = corpus.batch(config.seed, trainer.step, config.batch, config.context + 1)
            loss, norm = trainer.advance(windows)
            step, now = trainer.step, time.perf_counter()
            if not (math.isfinite(loss) and math.isfinite(norm)):
                _stop(run, step, loss, norm)
            tokens_per_second = config.tokens_per_step / (now - started)
            line = {"step": step, "loss": loss, "tokens_per_s": round(tokens_per_second, 1)}
            watcher.stepped(step, loss, tokens_per_second)
            if step % config.evaluate_every == 0 or step == config.steps:
                line["held_out"] = trainer.held_out(held_out_windows)
                watcher.estimated(step, line["held_out"])
            spent = time.perf_counter() - begun
            append({**line, "seconds": round(spent, 4)})
            if step % config.save_every == 0:
                run.save(config, step, trainer.state())
        run.save(config, trainer.step, trainer.state())
    return spent


def _stop(run: RunFolder, step: int, loss: float, norm: float) -> None:
    fail(
        "R006",
        "demo: training has gone astray",
        hint=f"the last good checkpoint is kept: rushlight demo --resume {run.path}; or use a lower learning rate",
        step=step,
        loss=loss,
        gradient_norm=norm,
    )
