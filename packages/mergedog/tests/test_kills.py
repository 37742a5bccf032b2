"""Row 12.1 and 12.3: a process that is killed at any point, and started again, repeats nothing that shows."""

import json
import os
import random
import signal
import time
from contextlib import closing

import pytest

from interleavings import KILLED, kill_at_places, one
from mergedog.github.forge import GitHub
from mergedog.github.transport import Transport
from mergedog.secrets import Secret
from mergedog.session import Session, World
from mergedog.shepherd import Shepherd
from mergedog.simulated.checks import Workflow, flaky
from mergedog.simulated.face import Face
from mergedog.state import State, Store, decoded
from simulation import Stage


@pytest.mark.row("12.1")
@pytest.mark.parametrize("seed", range(80))
def test_interleaving(seed):
    one(seed)


@pytest.mark.row("12.1")
@pytest.mark.parametrize("name", KILLED)
def test_kills_at_many_places_change_nothing_that_shows(name):
    assert kill_at_places(name, first=1 + KILLED.index(name), step=7) > 50


def live(stage: Stage, transport: Transport, store: Store, policy, stop=lambda outcome: False) -> None:
    """Be a process that shepherds as fast as it can."""
    world = World(GitHub(transport, stage.hub.name), stage.repository, stage.agent, stage.clock)
    Shepherd(world, policy, store, stage.hub.name, 1).run(stop)


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
        deadline = time.monotonic() + 90
        while kills < 200 and time.monotonic() < deadline:
            child = os.fork()
            if child == 0:
                try:
                    live(stage, transport, store, stage.rules())
                finally:
                    os._exit(1)
            time.sleep(draw.uniform(0.0, 0.2))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "the process ended by itself"
            kills += 1
            if store.path.exists():
                state = decoded(store.path.read_text())
                assert json.loads(store.path.read_text())["schema"] == 1 and state.number == 1
        assert kills == 200
        live(stage, transport, store, stage.rules(), lambda outcome: getattr(outcome, "why", "").startswith("green"))
    final: State = store.load(stage.hub.name, 1)
    shown = ("approve run gated", "rerun test", "ref refs/tags/full/1", "comment")
    assert tuple(stage.hub.acts) == shown, (final.waiting, final.log)


def test_only_one_process_works_on_a_pull_request(tmp_path):
    from mergedog.errors import StateError

    store = Store(tmp_path)
    with store.locked(), pytest.raises(StateError, match="another mergedog"), Store(tmp_path).locked():
        pass


@pytest.mark.row("12.1")
def test_an_action_is_counted_on_disk_before_it_happens():
    stage = Stage([])
    shepherd = stage.shepherd()
    pull = shepherd.world.forge.pull(1)
    session = Session(shepherd.world, stage.rules(), stage.store, stage.state(), pull)
    seen = []
    session.act("a:1", "a", 2, lambda: seen.append(stage.state().counts), "a")
    session.spend("b", 2)
    assert seen == [{"a": 1}] and stage.state().counts == {"a": 1, "b": 1} and stage.state().begun == []
