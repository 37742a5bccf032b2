"""Benchmarks are run as commands."""

from tests.cli.conftest import rushlight

__all__ = ["rushlight"]
