"""Random interleavings of author, maintainer, bot, forge, clock and kills, and what must hold in each.

`python tests/interleavings.py --seed 0 --count 5000` runs a campaign and prints what it met.
"""

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from kills import Killed, Killer, Mortal
from mergedog.agent import How
from mergedog.records import Judgement
from mergedog.session import World
from mergedog.shepherd import Shepherd
from mergedog.simulated.agent import commits, ends, in_turn, says_spurious
from mergedog.simulated.checks import Workflow, fails, fails_if, flaky, passes
from mergedog.simulated.forge import SimForge
from mergedog.simulated.hub import BOT, DAY, Hub
from scenarios import SCENARIOS
from simulation import Stage

HOUR = 3600.0
POLICY = """
[full]
workflows = ["trunk"]
[trust]
rebase_bot = "rebaser"
[timing]
poll_seconds = 400.0
"""
LINT_LOG = "y1.py:1:1: E501 line too long\n"


@dataclass
class Oracle:
    """What is trusted, told by what happened and not by the program under test."""

    trusted: set[str] = field(default_factory=set)
    approved_at: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def demand(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)


class WatchedHub(Hub):
    """A hub that asks the oracle about everything that the bot does."""

    oracle: Oracle

    def move(self, number: int, sha: str, by: str) -> None:
        if by == BOT:
            parents = self.objects[sha].parents
            self.oracle.demand(parents[0] in self.oracle.trusted, "a push on an untrusted commit")
            self.oracle.demand(parents[0] == self.head(number), "a push that loses a commit")
            on_base = self.objects.ancestors(self.refs["refs/heads/main"])
            self.oracle.demand(all(parent in on_base for parent in parents[1:]), "a merge of something else")
            self.oracle.trusted.add(sha)
        super().move(number, sha, by)

    def set_ref(self, name: str, sha: str) -> None:
        self.oracle.demand(name == "refs/tags/full/1", "a ref that is not ours")
        self.oracle.demand(sha in self.oracle.trusted, "a full run of an untrusted commit")
        self.oracle.demand(self.refs.get(name) != sha, "a full run that is asked for twice")
        super().set_ref(name, sha)

    def approve(self, run) -> None:
        self.oracle.demand(run.sha in self.oracle.trusted, "an untrusted run was approved")
        super().approve(run)

    def review(self, number, judgement=Judgement.APPROVED, by="mia", sha="") -> None:
        if judgement is Judgement.APPROVED and by == "mia":
            self.oracle.trusted.add(sha or self.head(number))
            self.oracle.approved_at.append(self.now())
        super().review(number, judgement, by, sha)

    def rebase(self, number, by, extra=None) -> str:
        sha = super().rebase(number, by, extra)
        patches = self.patches(sha)
        if by == "rebaser" and any(patches == self.patches(trusted) for trusted in self.oracle.trusted):
            self.oracle.trusted.add(sha)
        return sha

    def patches(self, head: str) -> list[str]:
        base = self.objects.ancestors(self.refs["refs/heads/main"])
        ids = [self.objects.patch_id(name) for name in self.objects.ancestors(head) if name not in base]
        return [patch for patch in ids if patch]


def random_workflows(draw: random.Random) -> list[Workflow]:
    lint = fails_if("y1.py", "y = 1", LINT_LOG)
    jobs = [passes, flaky("Connection timed out\n", draw.randint(1, 4)), lint, fails("FAILED t.py::test_a\n"), passes]

    def workflow(name: str, on: str, delay: float, duration: float) -> Workflow:
        job = draw.choice(jobs[:3] if on == "full" else jobs)
        return Workflow(name, {"job": job}, on, draw.uniform(1, delay), draw.uniform(1, duration), draw.random() < 0.3)

    pushed = [workflow(name, "push", 100, 4000) for name in ["test", "lint", "docs"][: draw.randint(1, 3)]]
    return [*pushed, workflow("trunk", "full", 300, 9000)]


def random_acts(draw: random.Random) -> list:
    repair = commits({"y1.py": "y = 2\n"})
    kinds = [repair, repair, ends(How.FAILED), ends(How.HUNG), in_turn(repair, repair), says_spurious("flaky")]
    return [draw.choice(kinds) for _ in range(draw.randint(1, 4))] + [repair]


def random_event(draw: random.Random):
    number = draw.randint(0, 10**6)

    def rebase(by, extra=None):
        def event(hub):
            hub.advance_base({f"base{number}": "1\n"})
            hub.rebase(1, by, extra)

        return event

    return draw.choice(
        [
            lambda hub: hub.push(1, {f"evil{number}.py": "1\n"}),
            lambda hub: hub.push(1, {f"evil{number}.py": "1\n"}),
            lambda hub: hub.review(1),
            lambda hub: hub.review(1),
            lambda hub: hub.review(1),
            lambda hub: hub.review(1, Judgement.DISMISSED),
            lambda hub: hub.review(1, by="eve"),
            lambda hub: hub.edit_page(1, body="new"),
            lambda hub: hub.say(1, "<!-- mergedog acme/widgets#1 --> done", "eve"),
            lambda hub: hub.advance_base({f"base{number}": "1\n"}),
            lambda hub: hub.advance_base({"y1.py": f"y = {number}\n"}),
            rebase("rebaser"),
            rebase("ann"),
            rebase("rebaser", {"evil.py": "1\n"}),
            lambda hub: setattr(hub, "down_until", hub.now() + number % 2000),
            lambda hub: setattr(hub, "limited_until", hub.now() + number % 2000),
            lambda hub: hub.incidents.append(7),
            lambda hub: hub.incidents.clear(),
        ]
    )


def random_stage(draw: random.Random) -> Stage:
    stage = Stage(
        random_workflows(draw),
        random_acts(draw),
        policy=POLICY,
        base_age=draw.choice([1, 6.9, 9]) * DAY,
        approve=False,
    )
    hub = WatchedHub(**{name: getattr(stage.hub, name) for name in Hub.__slots__})
    hub.oracle = Oracle()
    stage.hub = stage.clock.hub = hub
    hub.lag = draw.choice([0, 0, 60])
    stage.repository._hub = hub
    if draw.random() < 0.9:
        hub.review(1)
    stage.clock.time += 1
    times = sorted(stage.clock.time + draw.uniform(0, 8 * HOUR) for _ in range(draw.randint(0, 8)))
    stage.clock.events = [(at, random_event(draw)) for at in times]
    stage.clock.events.append((stage.clock.time + 9 * HOUR, lambda hub: hub.incidents.clear()))
    return stage


def play(stage: Stage, killer: Killer) -> str:
    """Start a shepherd again and again until people have to do something, and return how it ended."""
    end = stage.clock.time + 72 * HOUR
    while True:
        mortal = [Mortal(each, killer) for each in (SimForge(stage.hub), stage.repository, stage.agent, stage.clock)]
        shepherd = Shepherd(World(*mortal), stage.rules(), Mortal(stage.store, killer), stage.hub.name, 1)
        try:
            outcome = shepherd.run(lambda outcome: stage.settled(outcome) or stage.clock.time > end)
            return stage.told(outcome)
        except Killed:
            stage.clock.time += 1


def check(stage: Stage, ending: str, seed: int) -> None:
    """Raise if something happened that must not, or nothing happened that should."""
    hub, oracle, state = stage.hub, stage.hub.oracle, stage.state()
    pull, bounds = hub.pulls[1], stage.rules().bounds
    oracle.demand(pull.state == "open", "it was merged or closed")
    mine = [comment for comment in pull.comments if comment.author == BOT]
    oracle.demand(len(mine) <= 1, "a repeated comment")
    oracle.demand(sum(comment.edits for comment in mine) <= bounds.comment_edits, "too many edits")
    approvals = max(1, len(oracle.approved_at))
    oracle.demand(len(stage.agent.prompts) <= bounds.fixes * approvals, "too many sessions of the agent")
    merges = sum(act == "push Merge branch main" for act in hub.acts)
    oracle.demand(merges <= bounds.merges * approvals, "too many merges")
    runs = [run for run in hub.runs.values() if run.attempt > 1 + bounds.reruns]
    oracle.demand(not runs, "too many reruns")
    oracle.demand(all(count >= 0 for count in state.counts.values()), "a count below zero")
    wanted = expected(stage)
    spent = "limit" in ending and may_be_spent(stage)
    oracle.demand(ending == wanted or spent, f"it ended with {ending!r}, and {wanted!r} was expected")
    assert not oracle.broken, f"seed {seed}: {oracle.broken}: {hub.acts} {state.log}"


def may_be_spent(stage: Stage) -> bool:
    """Whether a budget of the approval in force is used up, by the program's own count."""
    state, bounds = stage.state(), stage.rules().bounds
    approval = state.approval.sha if state.approval else ""
    return state.counts.get(f"fixes:{approval}") == bounds.fixes


def expected(stage: Stage) -> str:
    """Return how it has to end, where budgets last."""
    hub, state = stage.hub, stage.state()
    pull, head = hub.pulls[1], hub.head(1)
    judgements = [review for review in pull.reviews if review.author == "mia"]
    if not judgements or judgements[-1].judgement is not Judgement.APPROVED:
        return "maintainer: no approval of a maintainer stands"
    unseen = judgements[-1].sha != head and judgements[-1].sha not in state.trusted
    if unseen:
        return "maintainer: halted: the head is not the commit that was approved"
    if pull.edited > judgements[-1].at:
        return "maintainer: halted: title or description changed after the approval"
    if head in hub.oracle.trusted:
        return "maintainer: green: a human merges"
    halted = state.waiting.why.startswith("halted: the head is not trusted")
    return f"maintainer: {state.waiting.why}" if halted else "a halt"


def one(seed: int) -> tuple[str, int]:
    """Play and check one interleaving; return how it ended and how often it was killed."""
    draw = random.Random(seed)
    stage = random_stage(draw)
    killer = Killer(draw, draw.choice([0.0, 0.002, 0.02]), draw.randint(0, 12))
    ending = play(stage, killer)
    check(stage, ending, seed)
    return ending.split(":")[1 if ending.count(":") == 1 else 2].strip(), len(killer.places)


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


def kill_at_places(name: str, first: int, step: int) -> int:
    """Play a scenario again and again, killed once, each time later, and return the first place that is none."""
    scenario, place = SCENARIOS[name], first
    while True:
        stage, killer = scenario.stage(), At(place)
        mortal = [Mortal(each, killer) for each in (SimForge(stage.hub), stage.repository, stage.agent, stage.clock)]
        shepherd = Shepherd(World(*mortal), stage.rules(), Mortal(stage.store, killer), stage.hub.name, 1)
        try:
            shepherd.run(stage.settled)
        except Killed:
            ending = stage.told(stage.play())
            assert (tuple(stage.hub.acts), ending) == (scenario.acts, scenario.ending), place
        else:
            return place
        place += step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--places", action="store_true", help="kill scenarios at each place once instead")
    options = parser.parse_args()
    if options.places:
        for name in KILLED:
            print(f"{name}: killed at each of {kill_at_places(name, first=1, step=1) - 1} places")
        return
    start, endings, kills = time.perf_counter(), Counter(), 0
    for seed in range(options.seed, options.seed + options.count):
        ending, killed = one(seed)
        endings[ending] += 1
        kills += killed
    print(f"{options.count} interleavings, {kills} kills, {time.perf_counter() - start:.0f} s")
    for ending, count in endings.most_common():
        print(f"{count:6} {ending}")


if __name__ == "__main__":
    main()
