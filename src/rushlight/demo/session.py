"""One run of the demo, from the corpus to the report."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from rich.console import Console

import rushlight as rl
from rushlight.demo.config import Config, Way
from rushlight.demo.corpus import Corpus, read_corpus
from rushlight.demo.curve import can_draw, draw_curve
from rushlight.demo.ngram import fit
from rushlight.demo.progress import show_progress
from rushlight.demo.run_folder import RunFolder, find_run, load_checkpoint, new_run
from rushlight.demo.sampling import continue_text, to_text
from rushlight.demo.trainer import Trainer, train, watch_interrupts
from rushlight.support.frozen import frozen

PROMPT = "def "
SAMPLE_BYTES = 400
INTERRUPTED = 130  # the exit status that shells give a program ended by Ctrl-C


@frozen
class Result:
    """How a run ended: losses in nats per byte over the same held-out bytes, and seconds of training."""

    held_out: float
    four_gram: float
    bytes_scored: int
    seconds: float
    four_gram_seconds: float


def run_demo(config: Config, way: Way, console: Console, out: Path | None = None) -> int:
    """Trains from the beginning in a new folder; the exit status: 0, or 130 when interrupted."""
    trainer = _trainer(config, way)
    corpus = read_corpus()
    return _go_on(trainer, corpus, _own_folder(trainer, lambda: new_run(out)), way, console)


def resume_demo(path: Path, way: Way, console: Console, out: Path | None = None, steps: int | None = None) -> int:
    """Continues a run from its checkpoint, in its own folder or in a new one. Each step is what it would have been.

    `steps` changes how many steps there are in all, and with that the learning rates of those to come.
    """
    source = find_run(path)
    config, step, state = load_checkpoint(source)
    trainer = _trainer(config if steps is None else replace(config, steps=steps), way)
    trainer.restore(step, state)
    corpus = read_corpus()
    run = source
    if out is not None:
        run = _own_folder(trainer, lambda: new_run(out))
        run.write_text(run.log.name, source.log.read_text(encoding="utf-8") if source.log.exists() else "")
    return _go_on(trainer, corpus, run, way, console)


def _own_folder(trainer: Trainer, make: Callable[[], RunFolder]) -> RunFolder:
    """A run's folder, made by the first rank; the others have folders in it."""
    ranks = trainer.ranks
    if ranks is None:
        return make()
    path: Path = ranks.agree(make().path if ranks.rank == 0 else None)
    if ranks.rank == 0:
        return RunFolder(path)
    own = RunFolder(path / f"rank-{ranks.rank}")
    own.path.mkdir()
    return own


def continue_prompt(path: Path, prompt: str, length: int, seed: int, temperature: float, top_k: int) -> str:
    """The text that a run's model writes after a prompt, without the prompt."""
    config, step, state = load_checkpoint(find_run(path))
    trainer = Trainer(config, Way())
    trainer.restore(step, state)
    data = continue_text(
        trainer.next_byte, prompt.encode(), length, config.context, seed=seed, temperature=temperature, top_k=top_k
    )
    return to_text(data)


def _trainer(config: Config, way: Way) -> Trainer:
    if way.threads:
        rl.set_num_threads(way.threads)
    return Trainer(config, way)


def _go_on(trainer: Trainer, corpus: Corpus, run: RunFolder, way: Way, console: Console) -> int:
    config = trainer.config
    if trainer.ranks and trainer.ranks.rank:
        console = Console(quiet=True)
    _introduce(trainer, corpus, run, way, console)
    with (
        watch_interrupts() as interrupts,
        show_progress(console, config.steps, config.tokens_per_step, trainer.step) as watcher,
    ):
        seconds = train(trainer, corpus, run, watcher, interrupts)
    if trainer.step < config.steps:
        say(console, f"Stopped after step {trainer.step} of {config.steps}; all of it is saved.")
        say(console, f"To continue:  rushlight demo --resume {run.path}")
        return INTERRUPTED
    _finish(trainer, corpus, run, seconds, console)
    return 0


def _introduce(trainer: Trainer, corpus: Corpus, run: RunFolder, way: Way, console: Console) -> None:
    config = trainer.config
    count = sum([parameter.numel() for parameter in trainer.model.parameters()])
    ways = "eager" if way.eager else "compiled"
    threads = rl.get_num_threads()
    machine = {"python": platform.python_version(), "rushlight": rl.__version__, "numpy": np.__version__}
    run.write_json(
        "config.json", {"config": config.to_dict(), "way": {**asdict(way), "threads": threads}, "versions": machine}
    )
    say(console, f"A GPT of {count:,} parameters learns Python from Python's standard library, byte by byte.")
    files, held_out_files = corpus.files
    say(console, f"{len(corpus.train):,} bytes in {files} files to learn from; {held_out_files} files are held out.")
    begun = f"from step {trainer.step} " if trainer.step else ""
    say(
        console,
        f"{config.steps} steps of {config.tokens_per_step:,} bytes, {begun}{ways}, {threads} threads; {run.path}",
    )


def _finish(trainer: Trainer, corpus: Corpus, run: RunFolder, seconds: float, console: Console) -> None:
    config = trainer.config
    result = _measure(trainer, corpus, seconds)
    sample = to_text(continue_text(trainer.next_byte, PROMPT.encode(), SAMPLE_BYTES, config.context, seed=config.seed))
    run.write_json("result.json", {**asdict(result), "prompt": PROMPT, "sample": sample})
    written = _draw(run, result)
    for line in [*_comparison(result), "", *(PROMPT + sample).splitlines(), "", *written, "", *_account(trainer)]:
        say(console, line)


def _measure(trainer: Trainer, corpus: Corpus, seconds: float) -> Result:
    """The final held-out loss and the 4-gram's, over the same bytes."""
    config = trainer.config
    length = config.context + 1
    windows = corpus.held_out_windows(config.final_windows, length)
    held_out = trainer.held_out(windows)
    started = time.perf_counter()
    starts = corpus.held_out_starts(len(windows), length)
    positions = (starts[:, None] + np.arange(1, length)).reshape(-1)
    four_gram = fit(corpus.train).loss(corpus.held_out, positions)
    return Result(held_out, four_gram, len(positions), seconds, time.perf_counter() - started)


def _comparison(result: Result) -> list[str]:
    return [
        f"held-out loss  {result.held_out:.4f} nats per byte, over {result.bytes_scored:,} bytes, "
        f"after {result.seconds:.0f} s of training",
        f"4-gram         {result.four_gram:.4f} nats per byte, interpolated, counted on the same files "
        f"in {result.four_gram_seconds:.1f} s",
    ]


def _draw(run: RunFolder, result: Result) -> list[str]:
    lines = run.lines()
    if not can_draw():
        return [f"written to {run.path} (install matplotlib for the loss curve: pip install 'rushlight[demo]')"]
    held_out = [(line["step"], line["held_out"]) for line in lines if "held_out" in line]
    draw_curve(run.curve, [line["loss"] for line in lines], held_out, result.four_gram)
    return [f"written to {run.path}: config, log, {run.curve.name}, checkpoint"]


def _account(trainer: Trainer) -> list[str]:
    """Five lines about the compiler's work."""
    if not any(rl.compiler.is_compiled(function) for function in trainer.functions.values()):
        return ["compiler       not used for whole steps (--eager): each operator ran as a kernel of its own"]
    report = rl.compiler.report(*trainer.functions.values())
    step = rl.compiler.report(trainer.functions["training step"])
    return [
        f"graphs         {report.graphs}: {', '.join(trainer.functions)}; compiled again {report.recompiles} times",
        f"kernels        {step.kernels} in the training step, in {step.launches} launches; {report.kernels} in all",
        f"compile time   {report.compile_seconds:.2f} s, {step.compile_seconds:.2f} s of it for the training step",
        f"arena          {step.arena_bytes / 1e6:.1f} MB for all intermediate results of a step",
        f"cache          {report.cache_hits} hits, {report.cache_misses} misses",
    ]


def say(console: Console, text: str) -> None:
    """Prints a line as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
