"""The loop: one look after another at a pull request, until a human has merged or closed it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mergedog.errors import BoundReached, Diverged, ForgeError, MergedogError, RateLimited
from mergedog.phases.order import PHASES
from mergedog.policy import Policy
from mergedog.records import Who
from mergedog.session import NEXT, Again, Done, Next, Outcome, Session, Wait, World
from mergedog.state import State, Store, Waiting

BACKOFF_SECONDS = 15.0
LONGEST_BACKOFF_SECONDS = 900.0
LOOKS_WITHOUT_PAUSE = 100

Watcher = Callable[[str, Outcome], None]


def _unwatched(phase: str, outcome: Outcome) -> None:
    pass


@dataclass(slots=True)
class Shepherd:
    """Shepherds one pull request.

    All that matters is in the store and on the forge, so it can end at any time.
    """

    world: World
    policy: Policy
    store: Store
    repository: str
    number: int
    watcher: Watcher = _unwatched
    failures: int = field(default=0)

    def look(self) -> Outcome:
        """Go through the phases once, and return how the last one went."""
        state = self.store.load(self.repository, self.number)
        try:
            phase, outcome = self._phases(state)
            self.failures = 0
        except Diverged:
            phase, outcome = "push", Again("somebody was faster")
        except BoundReached as error:
            phase, outcome = "bound", Wait(Who.MAINTAINER, f"halted: {error}", self.policy.timing.poll_seconds)
        except RateLimited as error:
            seconds = max(1.0, error.until - self.world.clock.now())
            phase, outcome = "forge", Wait(Who.INFRASTRUCTURE, "the forge asks to wait", seconds)
        except MergedogError as error:
            phase, outcome = "forge" if isinstance(error, ForgeError) else "git", self._backoff(error)
        self._note(state, phase, outcome)
        return outcome

    def _phases(self, state: State) -> tuple[str, Outcome]:
        pull = self.world.forge.pull(self.number)
        session = Session(self.world, self.policy, self.store, state, pull)
        for phase, act in PHASES:
            outcome = act(session)
            if not isinstance(outcome, Next):
                return phase, outcome
        return PHASES[-1][0], NEXT

    def _backoff(self, error: MergedogError) -> Wait:
        """Wait longer after each failure in a row."""
        seconds = min(LONGEST_BACKOFF_SECONDS, BACKOFF_SECONDS * 2**self.failures)
        self.failures = min(self.failures + 1, 10)
        return Wait(Who.INFRASTRUCTURE, str(error), seconds)

    def _note(self, state: State, phase: str, outcome: Outcome) -> None:
        """Keep for the table where the pull request stands."""
        match outcome:
            case Wait(who, why, _):
                waiting = Waiting(phase, who.value, why, state.waiting.since)
            case Done(why):
                waiting = Waiting("done", Who.NOBODY.value, why, state.waiting.since)
            case Again(what):
                waiting = Waiting(phase, Who.HARNESS.value, what, state.waiting.since)
            case Next():
                waiting = Waiting(phase, Who.HARNESS.value, "", state.waiting.since)
        if (waiting.who, waiting.why) != (state.waiting.who, state.waiting.why):
            waiting.since = self.world.clock.now()
            state.waiting = waiting
            self.store.save(state)
        self.watcher(phase, outcome)

    def run(self, stop: Callable[[Outcome], bool] = lambda outcome: False) -> Outcome:
        """Look until the pull request is merged or closed, or `stop` says so."""
        without_pause = 0
        while True:
            outcome = self.look()
            if isinstance(outcome, Done) or stop(outcome):
                return outcome
            without_pause = without_pause + 1 if isinstance(outcome, Again) else 0
            if isinstance(outcome, Wait):
                self.world.clock.sleep(outcome.seconds)
            elif without_pause >= LOOKS_WITHOUT_PAUSE:
                self.world.clock.sleep(self.policy.timing.poll_seconds)
