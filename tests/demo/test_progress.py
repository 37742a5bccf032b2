"""What is shown while training: a live line on a terminal, plain lines elsewhere."""

import io

import pytest
from rich.console import Console

from rushlight.demo.progress import Meter, show_progress


def shown(terminal: bool, steps: int) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=120, legacy_windows=False)
    with show_progress(console, steps, tokens_per_step=100, step=0) as watcher:
        for step in range(1, steps + 1):
            watcher.stepped(step, 5.0 / step, 1000.0)
        watcher.estimated(steps, 1.25)
    return file.getvalue()


def test_plain_lines_have_no_escapes_and_are_few():
    lines = shown(terminal=False, steps=400).splitlines()
    assert lines[0] == "step 1/400  loss 5.0000  1,000 tokens/s  0:39 left"
    assert lines[-2] == "step 400/400  loss 0.0125  1,000 tokens/s  0:00 left"
    assert lines[-1] == "step 400/400  held-out loss 1.2500"
    assert len(lines) == 42


def test_a_terminal_gets_one_live_line():
    text = shown(terminal=True, steps=5)
    assert "\x1b" in text
    for part in ("5/5", "loss 1.0000", "held out 1.2500", "1,000 tokens/s"):
        assert part in text


def test_the_first_step_does_not_count_for_the_time_left():
    meter = Meter(steps=101, tokens_per_step=100)
    meter.add(1.0)
    meter.add(1000.0)
    assert meter.left(1) == "0:10"
    for _ in range(100):
        meter.add(500.0)
    assert meter.tokens_per_second == pytest.approx(500, rel=1e-3)
