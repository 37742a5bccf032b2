"""A forge's server in memory: pull requests, branches, reviews, comments, runs, and whatever outsiders do."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mergedog.clock import Clock, ManualClock
from mergedog.records import Judgement
from mergedog.simulated.checks import SimRun, Workflow
from mergedog.simulated.objects import Files, Objects

BOT = "mergedog"
DAY = 86400.0


@dataclass(slots=True)
class SimReview:
    """A review."""

    author: str
    judgement: Judgement
    sha: str
    at: float


@dataclass(slots=True)
class SimComment:
    """A comment, with how often it was edited."""

    id: int
    author: str
    body: str
    updated: float
    edits: int = 0


@dataclass(slots=True)
class SimPull:
    """A pull request; `heads` has when the branch moved where, and who moved it."""

    number: int
    author: str
    branch: str
    title: str
    body: str
    created: float
    edited: float = 0.0
    draft: bool = False
    state: str = "open"
    heads: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    reviews: list[SimReview] = field(default_factory=list[SimReview])
    comments: list[SimComment] = field(default_factory=list[SimComment])


@dataclass(slots=True)
class Hub:
    """The server. `acts` is the log of what the bot did that others see."""

    clock: Clock = field(default_factory=ManualClock)
    name: str = "acme/widgets"
    workflows: Sequence[Workflow] = ()
    writers: set[str] = field(default_factory=lambda: {"mia"})
    objects: Objects = field(default_factory=Objects)
    refs: dict[str, str] = field(default_factory=dict[str, str])
    pulls: dict[int, SimPull] = field(default_factory=dict[int, SimPull])
    runs: dict[int, SimRun] = field(default_factory=dict[int, SimRun])
    incidents: list[int] = field(default_factory=list[int])
    acts: list[str] = field(default_factory=list[str])
    calls: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    lag: float = 0.0
    down_until: float = 0.0
    limited_until: float = 0.0
    serial: int = 100

    # ------------------------------------------------------------ what everybody can ask

    def now(self) -> float:
        """Return the time."""
        return self.clock.now()

    def next_id(self) -> int:
        """Return a number that nothing else has."""
        self.serial += 1
        return self.serial

    def head(self, number: int, at: float | None = None) -> str:
        """Return the head of a pull request, now or at a time."""
        heads = self.pulls[number].heads
        known = [sha for time, sha, _ in heads if at is None or time <= at]
        return known[-1] if known else heads[0][1]

    def files(self, number: int) -> dict[str, str]:
        """Return the files at the head of a pull request."""
        return self.objects[self.head(number)].files

    def visible_runs(self, sha: str) -> list[SimRun]:
        """Return the runs at a commit that have appeared."""
        return [run for run in self.runs.values() if run.sha == sha and run.created <= self.now()]

    # ------------------------------------------------------------ what people do

    def open_pull(self, number: int = 1, change: Files | None = None, base_age: float = DAY, **fields: str) -> SimPull:
        """Open a pull request of one commit on a base branch of the given age."""
        now = self.now()
        if "refs/heads/main" not in self.refs:
            content = {"lib.py": "x = 1\n", "README": "hello\n"}
            self.refs["refs/heads/main"] = self.objects.add((), content, "Begin", "mia", now - base_age)
        base = self.refs["refs/heads/main"]
        pull = SimPull(
            number,
            fields.get("author", "ann"),
            fields.get("branch", f"topic-{number}"),
            fields.get("title", "Add y"),
            fields.get("body", "It adds y."),
            now,
        )
        self.pulls[number] = pull
        files = {**self.objects[base].files, **(change or {f"y{number}.py": "y = 1\n"})}
        self.move(
            number, self.objects.add((base,), files, fields.get("message", "Add y"), pull.author, now), pull.author
        )
        return pull

    def push(self, number: int, change: Files, by: str = "ann", message: str = "More") -> str:
        """Push one commit on top of the head."""
        head = self.head(number)
        sha = self.objects.add((head,), {**self.objects[head].files, **change}, message, by, self.now())
        self.move(number, sha, by)
        return sha

    def rebase(self, number: int, by: str, extra: Files | None = None) -> str:
        """Put the commits of a pull request on the head of the base branch, as a bot does."""
        head, base = self.head(number), self.refs["refs/heads/main"]
        onto = set(self.objects.ancestors(base))
        sha = base
        for name in self.objects.ancestors(head):
            commit = self.objects[name]
            if name in onto or len(commit.parents) != 1:
                continue
            files = {**self.objects[sha].files, **(extra or {})}
            before = self.objects[commit.parents[0]].files
            files.update({path: text for path, text in commit.content if before.get(path) != text})
            sha = self.objects.add((sha,), files, commit.message, by, self.now())
        self.move(number, sha, by)
        return sha

    def advance_base(self, change: Files) -> str:
        """Add a commit to the base branch."""
        base = self.refs["refs/heads/main"]
        sha = self.objects.add((base,), {**self.objects[base].files, **change}, "Advance", "mia", self.now())
        self.refs["refs/heads/main"] = sha
        return sha

    def move(self, number: int, sha: str, by: str) -> None:
        """Move the branch of a pull request, which starts workflows."""
        pull = self.pulls[number]
        pull.heads.append((self.now(), sha, by))
        self.refs[f"refs/heads/{pull.branch}"] = sha
        self._start("push", sha)

    def review(self, number: int, judgement: Judgement = Judgement.APPROVED, by: str = "mia", sha: str = "") -> None:
        """Judge the head."""
        self.pulls[number].reviews.append(SimReview(by, judgement, sha or self.head(number), self.now()))

    def say(self, number: int, body: str, by: str = "ann") -> SimComment:
        """Comment."""
        comment = SimComment(self.next_id(), by, body, self.now())
        self.pulls[number].comments.append(comment)
        return comment

    def edit_page(self, number: int, title: str | None = None, body: str | None = None) -> None:
        """Change title or description."""
        pull = self.pulls[number]
        pull.title, pull.body = pull.title if title is None else title, pull.body if body is None else body
        pull.edited = self.now()

    # ------------------------------------------------------------ what the bot does

    def set_ref(self, name: str, sha: str) -> None:
        """Move a ref; those of full runs start workflows."""
        self.refs[name] = sha
        self.acts.append(f"ref {name}")
        self._start("full", sha)

    def rerun(self, run: SimRun) -> None:
        """Begin the next attempt of a run."""
        run.attempt, run.started = run.attempt + 1, self.now()
        self.acts.append(f"rerun {run.workflow.name}")

    def approve(self, run: SimRun) -> None:
        """Let a run begin."""
        run.gated, run.started = False, self.now()
        self.acts.append(f"approve run {run.workflow.name}")

    def _start(self, event: str, sha: str) -> None:
        files = self.objects[sha].files
        for workflow in self.workflows:
            if workflow.on == event:
                at = self.now() + workflow.delay
                run = SimRun(self.next_id(), workflow, sha, files, at, at, gated=workflow.gated)
                self.runs[run.id] = run
