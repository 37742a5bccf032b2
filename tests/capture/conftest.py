"""Every test compiles from the beginning."""

import pytest

from rushlight.compiler import reset


@pytest.fixture(autouse=True)
def forgotten() -> None:
    reset()
