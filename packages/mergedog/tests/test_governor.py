"""Row 12.3: one budget of calls for all processes, and twenty pull requests side by side under it."""

import json
import multiprocessing
import threading
import time
from pathlib import Path

import pytest

from mergedog.clock import ManualClock, SystemClock
from mergedog.governor import Attribution, Governor, Turnstile
from mergedog.policy import Rate, policy_from
from mergedog.session import World
from mergedog.shepherd import Shepherd
from mergedog.simulated.agent import SimAgent, commits
from mergedog.simulated.checks import Workflow, fails_if, flaky
from mergedog.simulated.forge import SimForge
from mergedog.simulated.hub import Hub
from mergedog.simulated.repository import SimRepository
from simulation import POLICY, MemoryStore

LINT = fails_if("lint.py", "y = 1", "lint.py:1:1: E501 long\n")


def respected(times: list[float], calls: int, window: float) -> bool:
    """Whether no window has more than so many calls."""
    times = sorted(times)
    return all(later - earlier >= window - 1e-6 for earlier, later in zip(times, times[calls:], strict=False))


def test_calls_are_spread_over_minutes_and_hours(tmp_path):
    clock = ManualClock()
    governor = Governor(tmp_path / "governor", Rate(3, 7), clock)
    times = []
    for _ in range(20):
        governor.wait_turn()
        times.append(clock.now() - 1_700_000_000)
    assert times == [0, 0, 0, 60, 60, 60, 120, *[3600] * 3, *[3660] * 3, 3720, *[7200] * 3, *[7260] * 3]


def test_unused_calls_are_not_saved_up(tmp_path):
    clock = ManualClock()
    governor = Governor(tmp_path / "governor", Rate(3, 100), clock)
    clock.sleep(10_000)
    waits = [governor.wait_turn() for _ in range(4)]
    assert waits == [0, 0, 0, 60]


def test_a_clock_that_is_set_back_frees_nothing(tmp_path):
    clock = ManualClock()
    governor = Governor(tmp_path / "governor", Rate(1, 100), clock)
    governor.wait_turn()
    clock.time -= 1000
    assert governor.wait_turn() == 1060


def test_another_policy_keeps_the_newest_calls(tmp_path):
    clock = ManualClock()
    path = tmp_path / "governor"
    for _ in range(5):
        Governor(path, Rate(5, 10), clock).wait_turn()
    assert Governor(path, Rate(5, 20), clock).wait_turn() == 60
    assert Governor(path, Rate(2, 5), clock).wait_turn() == 3600 - 60


def _call_often(path: Path, calls: int) -> None:
    governor = Governor(path, Rate(10, 1000), SystemClock(), minute=0.05, hour=60)
    with path.with_name(f"times-{multiprocessing.current_process().pid}").open("w") as file:
        for _ in range(calls):
            file.write(f"{governor.reserve()!r}\n")


@pytest.mark.row("12.3")
def test_processes_share_the_budget(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_call_often, args=(tmp_path / "governor", 50)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    times = [float(line) for path in tmp_path.glob("times-*") for line in path.read_text().split()]
    assert len(times) == 400 and respected(times, 10, 0.05)


@pytest.mark.row("12.3")
def test_a_killed_process_leaves_the_governor_usable(tmp_path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "governor"
    for turn in range(10):
        process = context.Process(target=_call_often, args=(path, 100_000))
        process.start()
        time.sleep(0.005 * turn)
        process.kill()
        process.join()
    times = [Governor(path, Rate(10, 1000), SystemClock(), 0.05, 60).reserve() for _ in range(30)]
    assert respected(times, 10, 0.05)


class SharedClock(ManualClock):
    """Simulated time for threads: it moves to the next wake-up when all of them sleep."""

    def __init__(self, sleepers: int) -> None:
        super().__init__()
        self.left = sleepers
        self.wakes: list[float] = []
        self.condition = threading.Condition()

    def sleep(self, seconds: float) -> None:
        with self.condition:
            wake = self.time + max(0.0, seconds)
            self.wakes.append(wake)
            self._advance()
            self.condition.wait_for(lambda: self.time >= wake)
            self.wakes.remove(wake)

    def leave(self) -> None:
        with self.condition:
            self.left -= 1
            self._advance()

    def _advance(self) -> None:
        # A thread whose time has come is awake, though it may not have run yet.
        asleep = [wake for wake in self.wakes if wake > self.time]
        if asleep and len(asleep) == self.left:
            self.time = min(asleep)
            self.condition.notify_all()


class Governed:
    """A forge whose every call passes the turnstile, one at a time."""

    def __init__(self, forge: SimForge, turnstile: Turnstile, lock: threading.Lock, times: list[float]) -> None:
        self.parts = forge, turnstile, lock, times

    def __getattr__(self, name):
        forge, turnstile, lock, times = self.parts

        def call(*arguments):
            turnstile.enter(name)
            with lock:
                times.append(turnstile.governor.clock.now())
                return getattr(forge, name)(*arguments)

        return call


@pytest.mark.row("12.3")
def test_twenty_pull_requests_respect_the_governor(tmp_path):
    numbers = range(1, 21)
    clock = SharedClock(len(numbers))
    workflows = [
        Workflow("lint", {"ruff": LINT}),
        Workflow("test", {"unit": flaky("Connection timed out\n")}, duration=600),
        Workflow("trunk", on="full", delay=30, duration=3600),
    ]
    hub, lock, times, endings = Hub(clock, workflows=workflows), threading.Lock(), [], {}
    rules = policy_from(POLICY + "[timing]\npoll_seconds = 900.0\nsettle_seconds = 300.0\n")
    for number in numbers:
        hub.open_pull(number, {"lint.py": "y = 1\n"} if number % 3 == 0 else None)
        hub.review(number)

    def work(number: int) -> None:
        repository = SimRepository(hub)
        agent = SimAgent(repository, [commits({"lint.py": "y = 2\n"})])
        attribution = Attribution(tmp_path / "calls.jsonl", number, clock)
        turnstile = Turnstile(Governor(tmp_path / "governor", rules.governor, clock), attribution)
        world = World(Governed(SimForge(hub), turnstile, lock, times), repository, agent, clock)
        try:
            if number == 7:
                raise RuntimeError("this one crashes")
            outcome = Shepherd(world, rules, MemoryStore(), hub.name, number).run(
                lambda outcome: getattr(outcome, "why", "").startswith("green")
            )
            endings[number] = outcome.why
        except RuntimeError:
            endings[number] = "crashed"
        finally:
            clock.leave()

    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    wanted = {number: "crashed" if number == 7 else "green: a human merges" for number in numbers}
    assert endings == wanted
    assert len(times) > 1000 and respected(times, 20, 60) and respected(times, 3000, 3600)
    assert all(sum(c.author == "mergedog" for c in hub.pulls[n].comments) == (n != 7) for n in numbers)
    lines = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert len(lines) == len(times) and {line["pull"] for line in lines} == set(numbers) - {7}
    assert sum(line["call"] == "comment" for line in lines) == 19
