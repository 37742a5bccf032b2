"""Scenarios: a hub with pull request 1, what outsiders do when, and what the shepherd did about it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mergedog.clock import ManualClock
from mergedog.policy import Policy, policy_from
from mergedog.session import Done, Outcome, Wait, World
from mergedog.shepherd import Shepherd
from mergedog.simulated.agent import SimAgent
from mergedog.simulated.checks import Workflow
from mergedog.simulated.forge import SimForge
from mergedog.simulated.hub import Hub
from mergedog.simulated.repository import SimRepository
from mergedog.state import State, Store, decoded, encoded

Event = Callable[[Hub], object]
POLICY = '[full]\nworkflows = ["trunk"]\n[trust]\nrebase_bot = "rebaser"\n'


class MemoryStore(Store):
    """A store without a disk, which encodes all the same."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        object.__setattr__(self, "texts", [])

    def load(self, repository: str, number: int) -> State:
        return decoded(self.texts[-1]) if self.texts else State(repository, number)

    def save(self, state: State) -> None:
        self.texts[:] = [encoded(state)]


class EventfulClock(ManualClock):
    """A clock at which events happen when it passes them."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[float, Event]] = []
        self.hub: Hub

    def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        while self.events and self.events[0][0] <= until:
            at, event = self.events.pop(0)
            self.time = max(self.time, at)
            event(self.hub)
        self.time = max(self.time, until)


@dataclass
class Stage:
    """Everything that a scenario plays on."""

    workflows: list[Workflow]
    acts: list = field(default_factory=list)
    events: list[tuple[float, Event]] = field(default_factory=list)
    policy: str = POLICY
    store: Store = field(default_factory=MemoryStore)
    base_age: float = 86400.0
    pull: dict = field(default_factory=dict)
    approve: bool = True

    def __post_init__(self) -> None:
        self.clock = EventfulClock()
        self.hub = self.clock.hub = Hub(self.clock, workflows=self.workflows)
        self.hub.open_pull(1, base_age=self.base_age, **self.pull)
        self.clock.time += 10
        if self.approve:
            self.hub.review(1)
        self.clock.time += 1
        start = self.clock.time
        self.clock.events = sorted(((start + at, event) for at, event in self.events), key=lambda pair: pair[0])
        self.repository = SimRepository(self.hub)
        self.agent = SimAgent(self.repository, self.acts)
        self.start = start

    def shepherd(self) -> Shepherd:
        world = World(SimForge(self.hub), self.repository, self.agent, self.clock)
        return Shepherd(world, self.rules(), self.store, self.hub.name, 1)

    def rules(self) -> Policy:
        return policy_from(self.policy)

    def settled(self, outcome: Outcome) -> bool:
        """Whether it waits for people and nothing is going to happen."""
        waits = isinstance(outcome, Wait) and outcome.who.value in ("author", "maintainer")
        return waits and not self.clock.events

    def play(self, hours: float = 48) -> Outcome:
        """Let time pass until people have to do something."""
        end = self.start + hours * 3600
        return self.shepherd().run(lambda outcome: self.settled(outcome) or self.clock.time > end)

    def state(self) -> State:
        return self.store.load(self.hub.name, 1)

    def told(self, outcome: Outcome) -> str:
        """Return how it ended, in words."""
        return (
            f"{outcome.who.value}: {outcome.why}"
            if isinstance(outcome, Wait)
            else f"done: {outcome.why}" * (isinstance(outcome, Done))
        )
