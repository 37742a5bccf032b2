"""`rushlight run SCRIPT`: runs a program in which `import torch` is Rushlight."""

from __future__ import annotations

import typer

from rushlight.torch import program


def run(context: typer.Context) -> None:
    """Run a PyTorch script, or a module with -m, on Rushlight: its `import torch` is Rushlight."""
    program.main(context.args)
