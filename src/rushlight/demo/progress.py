"""Showing how training goes: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rushlight.demo.trainer import Watcher

LINES = 40  # a run prints about so many on its own
SMOOTHING = 0.9


class Meter:
    """A running mean of speed, and the time left at that speed."""

    def __init__(self, steps: int, tokens_per_step: int) -> None:
        self.steps = steps
        self.tokens_per_step = tokens_per_step
        self.tokens_per_second = 0.0
        self.steps_seen = 0

    def add(self, tokens_per_second: float) -> None:
        """Counts a step; the first, which compiles, says nothing of the speed of others."""
        self.steps_seen += 1
        rate = self.tokens_per_second if self.steps_seen > 2 else tokens_per_second
        self.tokens_per_second = SMOOTHING * rate + (1 - SMOOTHING) * tokens_per_second

    def left(self, step: int) -> str:
        """Time left, as minutes:seconds."""
        seconds = (self.steps - step) * self.tokens_per_step / max(self.tokens_per_second, 1e-9)
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class PlainLines:
    """Prints a line now and then: where output is no terminal."""

    def __init__(self, console: Console, meter: Meter) -> None:
        self.console = console
        self.meter = meter
        self.every = max(1, meter.steps // LINES)

    def stepped(self, step: int, loss: float, tokens_per_second: float) -> None:
        """See `Watcher`."""
        self.meter.add(tokens_per_second)
        if step % self.every == 0 or step in (1, self.meter.steps):
            speed, left = self.meter.tokens_per_second, self.meter.left(step)
            self._print(f"step {step}/{self.meter.steps}  loss {loss:.4f}  {speed:,.0f} tokens/s  {left} left")

    def estimated(self, step: int, held_out: float) -> None:
        """See `Watcher`."""
        self._print(f"step {step}/{self.meter.steps}  held-out loss {held_out:.4f}")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveLine:
    """A bar with the numbers of the last step, redrawn in place."""

    def __init__(self, progress: Progress, meter: Meter, step: int) -> None:
        self.progress = progress
        self.meter = meter
        self.task = progress.add_task("", total=meter.steps, completed=step, loss="-", held_out="-", speed="-")

    def stepped(self, step: int, loss: float, tokens_per_second: float) -> None:
        """See `Watcher`."""
        self.meter.add(tokens_per_second)
        speed = f"{self.meter.tokens_per_second:,.0f}"
        self.progress.update(self.task, completed=step, loss=f"{loss:.4f}", speed=speed)

    def estimated(self, step: int, held_out: float) -> None:
        """See `Watcher`."""
        self.progress.update(self.task, completed=step, held_out=f"{held_out:.4f}")


@contextmanager
def show_progress(console: Console, steps: int, tokens_per_step: int, step: int) -> Generator[Watcher]:
    """The watcher that fits the console: live on a terminal, plain lines when not."""
    meter = Meter(steps, tokens_per_step)
    if not console.is_terminal:
        yield PlainLines(console, meter)
        return
    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(bar_width=24),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("held out {task.fields[held_out]}"),
        TextColumn("{task.fields[speed]} tokens/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=8) as progress:
        yield LiveLine(progress, meter, step)
        progress.refresh()
