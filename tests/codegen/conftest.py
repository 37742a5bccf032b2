"""Devices of the tests of code for GPUs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import plugins
import rushlight as rl
from rushlight.ir.grid.matrix_unit import UNITS


@pytest.fixture(params=UNITS)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An emulated GPU with a matrix unit."""
    with plugins.installed(tmp_path / "site", plugins.EXAMPLES / "simt"):
        simt = type(rl.backends.get("simt"))
        name = f"simt_{request.param}"
        rl.backends.register(type("Simt", (simt,), {"name": name, "unit": UNITS[request.param]})())
        yield name
        rl.backends.unregister(name)
