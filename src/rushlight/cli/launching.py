"""`rushlight launch -n 4 SCRIPT`: a program on many ranks."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rushlight.distributed import get_rank, simulation
from rushlight.distributed.launch import launch as launched
from rushlight.distributed.launch import torchruns_variables
from rushlight.support import settings
from rushlight.torch.finder import install
from rushlight.torch.program import run_module, run_script


def launch(
    context: typer.Context,
    ranks: Annotated[int, typer.Option("-n", "--ranks", "--nproc-per-node", min=1, help="How many ranks.")] = 1,
    hosts: Annotated[str, typer.Option(help="Machines and their ranks: `a:8,b:8`.")] = "",
    agent: Annotated[str, typer.Option(help="What is run in place of ssh, with a host and a command.")] = "",
    max_restarts: Annotated[int, typer.Option(min=0, help="How often a job that fails starts again.")] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds that the job may take; 0 for any.")] = 0,
    sim: Annotated[int, typer.Option("--sim", min=0, help="Simulate so many ranks without their data.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Where a simulation writes a Chrome trace.")] = None,
) -> None:
    """Run a program on several ranks: a script with its arguments, a module with -m, or `demo`.

    Its `import torch` is Rushlight, and it finds torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK.
    """
    arguments = [argument for at, argument in enumerate(context.args) if at or argument != "--"]
    if not arguments:
        raise typer.BadParameter("a script, -m and a module, or demo is expected")
    if sim:
        _simulate(arguments, sim, trace)
        return
    ours = arguments[0] == "demo" and not os.path.exists("demo")
    command = [sys.executable, "-m", "rushlight", *([] if ours else ["run"]), *arguments]
    options = {"hosts": hosts, "agent": agent}
    raise typer.Exit(launched(command, ranks, max_restarts=max_restarts, oversee=timeout, **options))


def _simulate(arguments: Sequence[str], world: int, trace: Path | None) -> None:
    """Print what a simulation of a program tells. What the program prints is shown once, as the first rank says it."""
    hidden: list[io.StringIO] = []

    def run() -> None:
        rank, ranks = str(get_rank()), str(world)
        settings.tell_program(torchruns_variables(rank, ranks, rank, ranks), replace=True)
        with contextlib.ExitStack() as stack:
            if hidden:
                stack.enter_context(contextlib.redirect_stdout(hidden[0]))
            hidden[:] = [io.StringIO()]
            if arguments[0] == "-m":
                run_module(arguments[1:])
            else:
                run_script(arguments)

    install()
    simulated = simulation.sim(run, world)
    typer.echo(str(simulated))
    if trace is not None:
        simulated.save_trace(trace)
