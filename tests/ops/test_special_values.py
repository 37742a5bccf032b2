"""Calls of every operator on tensors without dims or elements, and of NaN and of infinite, huge and tiny numbers."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from rushlight.support import settings
from tools.fuzz.recording import Recorded, replay

SHARES = 12


@functools.cache
def recorded() -> Recorded:
    return Recorded(Path(__file__).with_name("special_values.npz"))


@pytest.mark.generated
@pytest.mark.parametrize("share", range(SHARES))
def test_special_operands_give_what_they_give_in_pytorch(share: int) -> None:
    calls = range(share, len(recorded().programs), SHARES)
    assert len(calls) > 200
    with settings.override(optimise=0):  # each kernel runs once
        wrong = [replay(recorded(), number) for number in calls]
    assert not [detail for detail in wrong if detail is not None]
