"""The command line: `rushlight`."""

from rushlight.cli.app import main

__all__ = ["main"]
