"""Row 12.1 and 12.3: a process that is killed at any point, and started again, repeats nothing that shows."""

import json
import os
import random
import signal
import time
from contextlib import closing

import pytest

from interleavings import one
from kills import Killed, Killer, Mortal
from mergedog.github.forge import GitHub
from mergedog.github.transport import Transport
from mergedog.secrets import Secret
from mergedog.session import World
from mergedog.shepherd import Shepherd
from mergedog.simulated.checks import Workflow, flaky
from mergedog.simulated.face import Face
from mergedog.simulated.forge import SimForge
from mergedog.state import State, Store, decoded
from scenarios import SCENARIOS
from simulation import Stage


@pytest.mark.row("12.1")
@pytest.mark.parametrize("seed", range(80))
def test_interleaving(seed):
    one(seed)


class At(Killer):
    """Kills at one place, counted from the start."""

    def __init__(self, place: int) -> None:
        super().__init__(random.Random(0), 0.0, 1)
        self.place, self.passed = place, 0

    def pass_by(self, place: str) -> None:
        self.passed += 1
        if self.passed == self.place:
            raise Killed(place)


KILLED = ("network_flake", "lint_failure", "stale_base", "run_waits_for_a_maintainer", "merge_conflict")


@pytest.mark.row("12.1")
@pytest.mark.parametrize("name", KILLED)
def test_kills_at_many_places_change_nothing_that_shows(name):
    kill_at_places(name, first=1 + KILLED.index(name), step=7)


def kill_at_places(name: str, first: int, step: int) -> None:
    """Play a scenario again and again, killed once, each time later; `first=1, step=1` is every place."""
    scenario, place = SCENARIOS[name], first - step
    while True:
        place += step
        stage, killer = scenario.stage(), At(place)
        mortal = [Mortal(each, killer) for each in (SimForge(stage.hub), stage.repository, stage.agent, stage.clock)]
        shepherd = Shepherd(World(*mortal), stage.rules(), Mortal(stage.store, killer), stage.hub.name, 1)
        try:
            shepherd.run(stage.settled)
        except Killed:
            pass
        else:
            break
        ending = stage.told(stage.play())
        assert (tuple(stage.hub.acts), ending) == (scenario.acts, scenario.ending), place
    assert place > 50


def live(stage: Stage, transport: Transport, store: Store, policy) -> None:
    """Be a process that shepherds as fast as it can."""
    world = World(GitHub(transport, stage.hub.name), stage.repository, stage.agent, stage.clock)
    Shepherd(world, policy, store, stage.hub.name, 1).run(lambda outcome: False)


class FastClock:
    """Time that passes a thousand times as fast."""

    def __init__(self) -> None:
        self.start = time.time()

    def now(self) -> float:
        return self.start + (time.time() - self.start) * 2000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 2000)


@pytest.mark.row("12.3")
def test_state_is_valid_after_each_of_two_hundred_kills(tmp_path):
    workflows = [
        Workflow("gated", gated=True, duration=20),
        Workflow("test", {"unit": flaky("Connection timed out\n")}, duration=20),
        Workflow("trunk", on="full", delay=5, duration=60),
    ]
    policy = '[full]\nworkflows = ["trunk"]\n[timing]\npoll_seconds = 4.0\nsettle_seconds = 10.0\n'
    stage = Stage(workflows, policy=policy)
    stage.clock = stage.hub.clock = FastClock()
    stage.hub.pulls[1].reviews[0].at = stage.clock.now()
    for run in stage.hub.runs.values():
        run.created = run.started = stage.clock.now()
    store, draw, kills = Store(tmp_path / "pull-1"), random.Random(0), 0
    with Face(stage.hub, "token") as face, closing(Transport(face.url, Secret("token"), stage.clock)) as transport:
        deadline = time.monotonic() + 100
        while kills < 200 and time.monotonic() < deadline:
            child = os.fork()
            if child == 0:
                try:
                    live(stage, transport, store, stage.rules())
                finally:
                    os._exit(1)
            time.sleep(draw.uniform(0.0, 0.3))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "the process ended by itself"
            kills += 1
            if store.path.exists():
                state = decoded(store.path.read_text())
                assert json.loads(store.path.read_text())["schema"] == 1 and state.number == 1
        assert kills == 200
    final: State = store.load(stage.hub.name, 1)
    shown = ("approve run gated", "rerun test", "ref refs/tags/full/1", "comment")
    assert tuple(stage.hub.acts) == shown, (final.waiting, final.log)


def test_only_one_process_works_on_a_pull_request(tmp_path):
    from mergedog.errors import StateError

    store = Store(tmp_path)
    with store.locked(), pytest.raises(StateError, match="another mergedog"), Store(tmp_path).locked():
        pass
