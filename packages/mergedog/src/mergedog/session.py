"""What the phases share: the interfaces to the world, the policy, and the state on disk."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mergedog.agent import Agent
from mergedog.clock import Clock
from mergedog.forge import Forge
from mergedog.policy import Policy
from mergedog.records import Pull, Run, Who
from mergedog.repository import Repository
from mergedog.state import State, Store


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside of this process."""

    forge: Forge
    repository: Repository
    agent: Agent
    clock: Clock


@dataclass(frozen=True, slots=True)
class Next:
    """This phase has nothing to do: go on to the next one."""


@dataclass(frozen=True, slots=True)
class Again:
    """Something was changed outside: look at everything anew."""

    what: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done now; `seconds` until it is worth to look again."""

    who: Who
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The pull request is merged or closed."""

    why: str


Outcome = Next | Again | Wait | Done
NEXT = Next()


@dataclass(slots=True)
class Session:
    """One look at the pull request, and what it is looked at with."""

    world: World
    policy: Policy
    store: Store
    state: State
    pull: Pull
    runs: tuple[Run, ...] = field(default=())

    @property
    def head(self) -> str:
        """The commit that this look is about."""
        return self.pull.head

    @property
    def approval(self) -> str:
        """The commit that the maintainer approved."""
        return self.state.approval.sha if self.state.approval else ""

    def save(self) -> None:
        """Put the state on disk."""
        self.store.save(self.state)

    def now(self) -> float:
        """Return the time."""
        return self.world.clock.now()

    def spend(self, group: str, limit: int) -> None:
        """Count something that costs whenever it begins, before it begins."""
        self.state.begin(f"{group}#{self.state.counts.get(group, 0)}", group, limit)
        self.state.begun.pop()
        self.save()

    def act(self, action: str, group: str, limit: int, do: Callable[[], None], line: str) -> None:
        """Do something that others see, counted before and noted after.

        `action` names this one instance. Phases ask the forge whether it has happened already before they come here.
        """
        self.state.begin(action, group, limit)
        self.save()
        do()
        self.state.finish(action, line)
        self.save()

    def wait(self, who: Who, why: str, seconds: float | None = None) -> Wait:
        """Return a wait, by default until the next poll."""
        return Wait(who, why, self.policy.timing.poll_seconds if seconds is None else seconds)
