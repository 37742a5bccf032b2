"""Programs that the fuzzers recorded with PyTorch, run without it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from rushlight.support import settings
from tools.fuzz import recording_views
from tools.fuzz.recording import Recorded, replay

PROGRAMS, SHARES = 300, 10


@functools.cache
def recorded() -> Recorded:
    return Recorded(Path(__file__).with_name("operators.npz"))


@pytest.mark.generated
@pytest.mark.parametrize("share", range(SHARES))
def test_operators_do_what_they_did_in_pytorch(share: int) -> None:
    with settings.override(optimise=0):  # each kernel runs once
        wrong = {number: replay(recorded(), number) for number in range(share, PROGRAMS, SHARES)}
    assert len(recorded().programs) == PROGRAMS
    assert not {number: detail for number, detail in wrong.items() if detail is not None}


@functools.cache
def recorded_views() -> recording_views.RecordedViews:
    return recording_views.RecordedViews(Path(__file__).with_name("views.npz"))


@pytest.mark.generated
@pytest.mark.parametrize("share", range(SHARES))
def test_views_do_what_they_did_in_pytorch(share: int) -> None:
    with settings.override(optimise=0):
        wrong = [recording_views.replay(recorded_views(), number) for number in range(share, PROGRAMS, SHARES)]
    assert len(recorded_views().programs) == PROGRAMS
    assert not [detail for detail in wrong if detail is not None]
