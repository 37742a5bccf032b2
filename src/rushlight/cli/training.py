"""`rushlight demo` and `rushlight generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rushlight.demo.config import Config, Way
from rushlight.demo.dlrm import Training, train
from rushlight.demo.session import continue_prompt, resume_demo, run_demo
from rushlight.support.errors import fail

Kind = Annotated[str, typer.Argument(help="gpt, or dlrm.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Training steps in all.", show_default=str(Config().steps))]
Eager = Annotated[bool, typer.Option("--eager", help="Run each operator on its own, without compiling the step.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads to compute on; 0 for all that this process may use.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of weights, batches and sample.", show_default="0")]
Out = Annotated[
    Path | None, typer.Option(help="Folder to write to; it must be new or empty.", show_default="runs/demo-NNN")
]
Resume = Annotated[Path | None, typer.Option(help="Continue the run in this folder where it stopped.")]
Device = Annotated[str, typer.Option(help="Where to compute.")]
Parallel = Annotated[
    str,
    typer.Option(help="How the model lies on the ranks of `rushlight launch`: ddp or fsdp.", show_default="no ranks"),
]
Set = Annotated[list[str] | None, typer.Option("--set", hidden=True, help="A field of the config, as name=value.")]


def demo(
    kind: Kind = "gpt",
    steps: Steps = None,
    eager: Eager = False,
    threads: Threads = 0,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = None,
    device: Device = "cpu",
    parallel: Parallel = "",
    fields: Set = None,
) -> None:
    """Train a small GPT on the source of Python's standard library, and let it write some.

    `demo dlrm` trains a click model of embedding tables on generated logs for two minutes instead; the ranks of
    `rushlight launch` divide its tables.

    Ctrl-C saves a checkpoint; --resume continues from it, bit for bit.
    """
    console = Console()
    if kind == "dlrm":
        plan = Training(seed=seed or 0) if steps is None else Training(seed=seed or 0, steps=steps)
        train(plan, console)
        return
    if kind != "gpt":
        fail("A002", f"demo: there is no {kind}", hint="gpt or dlrm")
    way = Way(eager, threads, device, parallel)
    if resume is None:
        given = {"steps": steps, "seed": seed}
        changes = {name: value for name, value in given.items() if value is not None}
        config = Config().changed({**changes, **dict([_field(text) for text in fields or ()])})
        raise typer.Exit(run_demo(config, way, console, out))
    if seed is not None or fields:
        fail("A002", "demo: a resumed run keeps its seed and config", hint="leave out --seed, or start a new run")
    raise typer.Exit(resume_demo(resume, way, console, out, steps))


def _field(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def generate(
    run: Annotated[Path, typer.Argument(help="The folder of a run of `rushlight demo`.")],
    prompt: Annotated[str, typer.Option(help="The text to continue.")] = "def ",
    length: Annotated[int, typer.Option(min=1, help="Bytes to write.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest byte; above 1 gets wild.")] = 0.8,
    top_k: Annotated[int, typer.Option(min=1, max=256, help="Draw from so many of the likeliest bytes.")] = 40,
) -> None:
    """Continue a text with what `rushlight demo` has trained."""
    typer.echo(prompt + continue_prompt(run, prompt, length, seed, temperature, top_k))
