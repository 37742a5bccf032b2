"""Row 12.3: one process each, the table, and the command."""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mergedog import cli, demo
from mergedog.clock import ManualClock
from mergedog.records import Who
from mergedog.state import State, Store, Waiting
from mergedog.table import COLOURS, read_states, status_table
from mergedog.watch import RESTARTS, Kennel


class FakeProcess:
    def __init__(self) -> None:
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def terminate(self) -> None:
        self.status = -15

    def kill(self) -> None:
        self.status = -9

    def wait(self, timeout: float | None = None) -> int:
        return self.status or 0


class DeafProcess(FakeProcess):
    def terminate(self) -> None:
        pass

    def wait(self, timeout: float | None = None) -> int:
        if self.status is None:
            raise subprocess.TimeoutExpired("deaf", timeout or 0.0)
        return self.status


def a_kennel():
    clock, launched = ManualClock(), []

    def launch(number: int) -> FakeProcess:
        launched.append((number, FakeProcess()))
        return launched[-1][1]

    kennel = Kennel(launch, clock)
    kennel.start([1, 2, 3])
    return kennel, clock, launched


@pytest.mark.row("12.3")
def test_a_crash_leaves_the_others_and_is_started_again_later():
    kennel, clock, launched = a_kennel()
    others = [launched[0][1], launched[2][1]]
    launched[1][1].status = 1
    assert kennel.tend() and len(launched) == 3
    assert kennel.notes() == {2: "the process ended with 1 and starts again soon"}
    clock.sleep(4)
    kennel.tend()
    assert len(launched) == 3
    clock.sleep(2)
    kennel.tend()
    assert [number for number, _ in launched] == [1, 2, 3, 2] and kennel.notes() == {}
    assert [process.status for process in others] == [None, None]


def test_a_process_that_always_crashes_is_given_up():
    kennel, clock, launched = a_kennel()
    for process in (launched[0][1], launched[2][1]):
        process.status = 0
    for _ in range(50):
        [process for number, process in launched if number == 2][-1].status = 1
        left = kennel.tend()
        clock.sleep(1000)
    assert not left and len(launched) == 3 + RESTARTS
    assert kennel.notes() == {2: "the process ended with 1 and is not started again"}


def test_all_are_ended():
    kennel, _, launched = a_kennel()
    kennel.stop()
    assert [process.status for _, process in launched] == [-15] * 3


def test_a_process_that_does_not_hear_is_killed():
    kennel, _, launched = a_kennel()
    deaf = DeafProcess()
    kennel.children[1].process = deaf
    kennel.stop()
    assert deaf.status == -9 and [process.status for _, process in launched] == [None, -15, -15]


def processes_of(folder) -> list[int]:
    """The processes whose command line names a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def after(condition, seconds: float = 40) -> bool:
    """Whether a condition holds within that time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.row("12.3")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGKILL"])
def test_no_process_outlives_watch(name, tmp_path):
    options = ["--state", str(tmp_path), "--api", "http://127.0.0.1:9", "--agent", "true"]
    call = [sys.executable, "-m", "mergedog", "watch", "acme/widgets", "1", "2", *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    watching = subprocess.Popen(call, env={**os.environ, "GITHUB_TOKEN": "ghp_" + "a" * 36}, **quiet)
    try:
        # No forge answers there, so both processes wait for it, longer each time.
        assert after(lambda: len(list(tmp_path.rglob("state.json"))) == 2) and len(processes_of(tmp_path)) == 3
        watching.send_signal(signal.Signals[name])
        watching.wait(30)
        assert after(lambda: not processes_of(tmp_path), 20), processes_of(tmp_path)
    finally:
        for left in processes_of(tmp_path):
            os.kill(left, signal.SIGKILL)


def saved(folder, number: int, who: str, why: str) -> None:
    state = State("acme/widgets", number)
    state.waiting = Waiting("checks", who, why, 1000.0)
    Store(folder / f"pull-{number}").save(state)


@pytest.mark.row("12.3")
def test_the_table_is_coloured_by_who_can_unblock(tmp_path):
    assert set(COLOURS) == set(Who) and len(set(COLOURS.values())) == len(Who)
    for number, who in enumerate(Who, 1):
        saved(tmp_path, number, who.value, f"reason {number}")
    (tmp_path / "pull-9").mkdir()
    (tmp_path / "pull-9" / "state.json").write_text("{")
    states = read_states(tmp_path, "acme/widgets")
    assert [state.number for state in states] == list(range(1, len(Who) + 1))
    output = io.StringIO()
    Console(file=output, force_terminal=True, width=120, color_system="standard").print(
        status_table(states, 1000 + 7200, {2: "the process ended with 1"})
    )
    text = output.getvalue()
    assert "\x1b[33mauthor" in text and "\x1b[35m" in text and "2 h" in text and "the process ended with 1" in text


def test_markup_in_a_reason_is_shown_as_it_is(tmp_path):
    saved(tmp_path, 1, "checks", "[red]x[/red] runs")
    output = io.StringIO()
    Console(file=output, width=120).print(status_table(read_states(tmp_path, "acme/widgets"), 1000))
    assert "[red]x[/red] runs" in output.getvalue()


@pytest.mark.row("12.1")
def test_the_demo_ends_green_and_in_colour():
    output = io.StringIO()
    assert demo.play(Console(file=output, force_terminal=True, width=100), pause=0.0)
    text = output.getvalue()
    assert "\x1b[" in text and "green: a human merges" in text and "a human merged it" in text
    assert ".ssh" not in text


def test_the_command(tmp_path, monkeypatch):
    runner = CliRunner()
    assert "[bounds]" in runner.invoke(cli.app, ["policy"]).output
    saved(tmp_path / "acme+widgets", 4, "checks", "lint runs")
    shown = runner.invoke(cli.app, ["status", "acme/widgets", "--state", str(tmp_path)]).output
    assert "#4" in shown and "lint runs" in shown
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    refused = runner.invoke(cli.app, ["run", "acme/widgets", "4", "--agent", "true", "--state", str(tmp_path)])
    assert refused.exit_code != 0
    monkeypatch.setattr(sys, "argv", ["mergedog", "status", "--", "-x"])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
