"""Calibrated times of collectives leave out what a rank waits for a processor."""

import time

import pytest

from rushlight.distributed.engine.alone import Alone
from rushlight.distributed.simulation import calibrating


@pytest.mark.parametrize("wait", [0.0, 0.015, 5.0])
def test_waits_for_a_processor_are_subtracted(monkeypatch: pytest.MonkeyPatch, wait: float) -> None:
    group, told = Alone(), [0.0]

    def issue():
        time.sleep(0.02)
        told[0] += wait
        return group.barrier()

    monkeypatch.setattr(calibrating, "waited_seconds", lambda: told[0])
    found = calibrating.median_seconds(group, issue, budget=0.1)
    assert found > 0 and max(0.02 - wait, 0) <= found
    assert wait < 1 or found < 1e-6


def test_what_the_kernel_does_not_tell_is_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    before = calibrating.waited_seconds()
    assert calibrating.waited_seconds() >= before >= 0
    monkeypatch.setattr(calibrating, "_SCHEDULED", tmp_path / "none")
    assert calibrating.waited_seconds() == 0
    (tmp_path / "none").write_text("1")
    assert calibrating.waited_seconds() == 0
