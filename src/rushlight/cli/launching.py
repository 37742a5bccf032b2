"""`rushlight launch -n 4 SCRIPT`: a program on many ranks."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rushlight.distributed.launch import launch as launched


def launch(
    context: typer.Context,
    ranks: Annotated[int, typer.Option("-n", "--ranks", "--nproc-per-node", min=1, help="How many ranks.")] = 1,
    hosts: Annotated[str, typer.Option(help="Machines and their ranks: `a:8,b:8`.")] = "",
    agent: Annotated[str, typer.Option(help="What is run in place of ssh, with a host and a command.")] = "",
    max_restarts: Annotated[int, typer.Option(min=0, help="How often a job that fails starts again.")] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds that the job may take; 0 for any.")] = 0,
) -> None:
    """Run a program on several ranks: a script with its arguments, a module with -m, or `demo`.

    Its `import torch` is Rushlight, and it finds torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK.
    """
    arguments = [argument for at, argument in enumerate(context.args) if at or argument != "--"]
    if not arguments:
        raise typer.BadParameter("a script, -m and a module, or demo is expected")
    ours = arguments[0] == "demo" and not os.path.exists("demo")
    command = [sys.executable, "-m", "rushlight", *([] if ours else ["run"]), *arguments]
    options = {"hosts": hosts, "agent": agent}
    raise typer.Exit(launched(command, ranks, max_restarts=max_restarts, oversee=timeout, **options))
