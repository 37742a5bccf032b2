"""A model small enough to train in a moment."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rushlight.demo.config import Config, Way
from rushlight.demo.corpus import Corpus
from rushlight.demo.run_folder import RunFolder
from rushlight.demo.trainer import Interrupts, Trainer, train

TINY = Config(
    layers=1,
    heads=2,
    width=32,
    context=16,
    batch=4,
    steps=6,
    warm_up=2,
    evaluate_every=2,
    save_every=2,
    held_out_windows=6,
    final_windows=8,
)

COMPILED = Way()


class Watching:
    """Notes what it is told, and asks to stop after a step."""

    def __init__(self, interrupts: Interrupts, stop: int | None) -> None:
        self.interrupts = interrupts
        self.stop = stop
        self.losses: list[float] = []
        self.held_out: list[tuple[int, float]] = []

    def stepped(self, step: int, loss: float, tokens_per_second: float) -> None:
        assert tokens_per_second > 0
        self.losses.append(loss)
        self.interrupts.requested = step == self.stop

    def estimated(self, step: int, held_out: float) -> None:
        self.held_out.append((step, held_out))


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Something to learn: words in random order."""
    generator = np.random.default_rng(5)
    words = [b"alpha ", b"beta ", b"gamma\n", b"delta "]
    text = b"".join([words[index] for index in generator.integers(0, 4, 5000)])
    data = np.frombuffer(text, np.uint8)
    return Corpus(data[:20_000], data[20_000:], (1, 1))


@pytest.fixture
def trained(corpus: Corpus) -> Callable[..., Watching]:
    """Trains in a folder, from the beginning or from where a trainer is."""

    def run(
        folder: Path,
        config: Config = TINY,
        way: Way = COMPILED,
        stop: int | None = None,
        trainer: Trainer | None = None,
    ) -> Watching:
        interrupts = Interrupts()
        watcher = Watching(interrupts, stop)
        folder.mkdir(exist_ok=True)
        train(trainer or Trainer(config, way), corpus, RunFolder(folder), watcher, interrupts)
        return watcher

    return run
