"""Causes of the errors of the demo."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from errorcases import triggers
from rushlight.demo.config import Config, Way
from rushlight.demo.corpus import Corpus, read_corpus
from rushlight.demo.progress import Meter, PlainLines
from rushlight.demo.run_folder import RunFolder, new_run
from rushlight.demo.trainer import Interrupts, Trainer, train


@triggers("P007", users_line=False)
def a_runs_folder_is_taken(tmp_path: Path):
    (tmp_path / "mine").touch()
    new_run(tmp_path)


@triggers("P008", users_line=False)
def a_library_without_source(tmp_path: Path):
    (tmp_path / "one.py").write_text("x = 1\n")
    read_corpus(tmp_path)


@triggers("R006", users_line=False)
def a_learning_rate_that_is_far_too_high(tmp_path: Path):
    tiny = Config(layers=1, heads=1, width=8, context=8, batch=2, steps=20, warm_up=1, learning_rate=1e30)
    text = np.arange(400).astype(np.uint8)
    console = Console(quiet=True)
    trainer = Trainer(replace(tiny, evaluate_every=100, save_every=100), Way(eager=True))
    watcher = PlainLines(console, Meter(20, 16))
    train(trainer, Corpus(text, text, (1, 1)), RunFolder(tmp_path), watcher, Interrupts())
