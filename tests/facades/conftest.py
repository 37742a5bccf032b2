"""What tests of several façades use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rushlight import library


@pytest.fixture
def operators() -> Iterator[None]:
    """Whatever a test defines is removed."""
    before = set(library.OPERATORS)
    yield
    for name in set(library.OPERATORS) - before:
        library.OPERATORS[name].remove()
