"""Both example devices, as if their packages were installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import plugins
import rushlight as rl


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[None]:
    """mica and flint are there."""
    with plugins.installed(tmp_path / "site", plugins.EXAMPLES / "mica", plugins.EXAMPLES / "flint"):
        yield


@pytest.fixture
def mica(devices: None) -> rl.backends.Backend:
    """The backend of mica."""
    return rl.backends.get("mica")
