"""GitHub's REST API as a `Forge`.

REST does not tell when title or description changed, on which trust depends: that one question goes to GraphQL.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from mergedog import identifiers
from mergedog.errors import Malformed, NotFound, Refused
from mergedog.github.fields import Table, flag, moment, number, rows, table, text, untrusted
from mergedog.github.transport import Transport
from mergedog.records import Comment, Job, Judgement, Pull, Review, Run
from mergedog.secrets import scrub
from mergedog.untrusted import Untrusted

PAGE = "per_page=100"
LOG_CHARACTERS = 2_000_000
WRITERS = ("admin", "maintain", "write")
PASSING = ("success", "skipped", "neutral")
JUDGEMENTS = {
    "APPROVED": Judgement.APPROVED,
    "CHANGES_REQUESTED": Judgement.CHANGES_REQUESTED,
    "DISMISSED": Judgement.DISMISSED,
    "COMMENTED": Judgement.COMMENTED,
    "PENDING": Judgement.COMMENTED,
}
EDITS = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    lastEditedAt
    timelineItems(itemTypes: RENAMED_TITLE_EVENT, last: 1) { nodes { ... on RenamedTitleEvent { createdAt } } }
  } }
}"""


@dataclass(slots=True)
class GitHub:
    """One repository, `owner/name`, on GitHub or on something that speaks as it does."""

    transport: Transport
    repository: str
    login: str = field(default="", init=False)
    edits: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float], init=False)

    def _path(self, rest: str) -> str:
        return f"/repos/{identifiers.repository(self.repository)}{rest}"

    def _rows(self, rest: str, what: str, key: str = "") -> Iterator[Table]:
        """Yield the rows of all pages."""
        joint = "&" if "?" in rest else "?"
        for page in self.transport.pages(self._path(f"{rest}{joint}{PAGE}")):
            yield from rows(table(page).get(key) if key else page, what)

    # ------------------------------------------------------------ questions

    def me(self) -> str:
        """Return the login of the account that acts."""
        if not self.login:
            self.login = identifiers.login(table(self.transport.get("/user")).get("login"))
        return self.login

    def pull(self, number: int) -> Pull:
        """Return a pull request as it is now."""
        row = table(self.transport.get(self._path(f"/pulls/{number:d}")))
        head, base = table(row, "head"), table(row, "base")
        # A fork that was deleted is null: nothing can be pushed there, and nothing of it changes.
        origin = table(head, "repo").get("full_name") if head.get("repo") is not None else self.repository
        return Pull(
            number=number,
            title=untrusted(row, "title", "title"),
            body=untrusted(row, "body", "description"),
            author=_author(row),
            head=identifiers.sha(head.get("sha")),
            head_branch=identifiers.branch(head.get("ref")),
            head_repository=identifiers.repository(origin),
            base_branch=identifiers.branch(base.get("ref")),
            open=text(row, "state") == "open",
            merged=flag(row, "merged"),
            draft=flag(row, "draft"),
            created=moment(row, "created_at"),
            edited=self._edited(number, text(row, "updated_at")),
        )

    def _edited(self, number: int, updated: str) -> float:
        """Return when title or description last changed; asked again only when the page has changed."""
        key = number, updated
        if key not in self.edits:
            owner, name = self.repository.split("/")
            variables = {"owner": owner, "name": name, "number": number}
            answer = self.transport.send("POST", "/graphql", {"query": EDITS, "variables": variables})
            pull = table(answer, "data", "repository", "pullRequest")
            renames = rows(table(pull, "timelineItems").get("nodes"), "renames")
            times = [moment(pull, "lastEditedAt"), *(moment(rename, "createdAt") for rename in renames)]
            self.edits = {key: max(times)}
        return self.edits[key]

    def reviews(self, number: int) -> tuple[Review, ...]:
        """Return all reviews, oldest first; a pending one has no time and judges nothing."""
        return tuple(
            _review(row) for row in self._rows(f"/pulls/{number:d}/reviews", "reviews") if row.get("commit_id")
        )

    def may_approve(self, login: str) -> bool:
        """Whether an account may write to the repository."""
        try:
            answer = table(self.transport.get(self._path(f"/collaborators/{identifiers.login(login)}/permission")))
        except NotFound:
            return False
        return text(answer, "permission") in WRITERS

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Return all comments, oldest first."""
        return tuple(_comment(row) for row in self._rows(f"/issues/{number:d}/comments", "comments"))

    def committer(self, sha: str) -> str:
        """Return the login that GitHub has for the committer of a commit, empty if it knows none."""
        row = table(self.transport.get(self._path(f"/commits/{identifiers.sha(sha)}")))
        return "" if row.get("committer") is None else identifiers.login(table(row, "committer").get("login"))

    def runs(self, sha: str) -> tuple[Run, ...]:
        """Return all workflow runs at a commit."""
        found = self._rows(f"/actions/runs?head_sha={identifiers.sha(sha)}", "runs", "workflow_runs")
        return tuple(run for run in map(_run, found) if run.sha == sha)

    def jobs(self, run: int) -> tuple[Job, ...]:
        """Return the jobs of the newest attempt of a run."""
        return tuple(_job(row) for row in self._rows(f"/actions/runs/{run:d}/jobs?filter=latest", "jobs", "jobs"))

    def log(self, job: int) -> Untrusted:
        """Return the end of the log of a job; one that was never written, or has expired, is empty."""
        try:
            whole = self.transport.download(self._path(f"/actions/jobs/{job:d}/logs"))
        except NotFound:
            whole = ""
        return Untrusted(scrub(whole[-LOG_CHARACTERS:], self.transport.token), "log")

    def incidents(self, label: str) -> tuple[int, ...]:
        """Return the numbers of open issues with a label."""
        found = self._rows(f"/issues?state=open&labels={quote(label, safe='')}", "issues")
        return tuple(number(row, "number") for row in found if "pull_request" not in row)

    def ref(self, name: str) -> str:
        """Return the commit of a ref, empty if there is none."""
        try:
            row = table(self.transport.get(self._path(f"/git/ref/{_ref(name)}")))
        except NotFound:
            return ""
        return identifiers.sha(table(row, "object").get("sha"))

    # ------------------------------------------------------------ actions

    def approve_run(self, run: int) -> None:
        """Let a run begin."""
        self.transport.send("POST", self._path(f"/actions/runs/{run:d}/approve"))

    def rerun_failed(self, run: int) -> None:
        """Run the failed jobs of a run again."""
        self.transport.send("POST", self._path(f"/actions/runs/{run:d}/rerun-failed-jobs"))

    def set_ref(self, name: str, sha: str) -> None:
        """Make a ref point at a commit."""
        body = {"sha": identifiers.sha(sha), "force": True}
        try:
            self.transport.send("PATCH", self._path(f"/git/refs/{_ref(name)}"), body)
        except (NotFound, Refused):  # GitHub refuses with 422 where there is no such ref
            self.transport.send("POST", self._path("/git/refs"), {"ref": name, "sha": sha})

    def comment(self, number: int, body: str) -> int:
        """Write a comment and return its id."""
        answer = table(self.transport.send("POST", self._path(f"/issues/{number:d}/comments"), {"body": body}))
        return _id(answer)

    def edit_comment(self, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        self.transport.send("PATCH", self._path(f"/issues/comments/{comment:d}"), {"body": body})


def _ref(name: str) -> str:
    return identifiers.branch(name.removeprefix("refs/"))


def _id(row: Table) -> int:
    return number(row, "id")


def _author(row: Table) -> str:
    """Return who wrote something; accounts that were deleted are `ghost`."""
    return "ghost" if row.get("user") is None else identifiers.login(table(row, "user").get("login"))


def _review(row: Table) -> Review:
    judgement = JUDGEMENTS.get(text(row, "state").upper())
    if judgement is None:
        raise Malformed("the forge answered with a review of a kind that is not known")
    return Review(_author(row), judgement, identifiers.sha(row.get("commit_id")), moment(row, "submitted_at"))


def _comment(row: Table) -> Comment:
    return Comment(_id(row), _author(row), untrusted(row, "body", "comment"), moment(row, "updated_at"))


def _run(row: Table) -> Run:
    return Run(
        id=_id(row),
        workflow=identifiers.check(row.get("name")),
        workflow_id=number(row, "workflow_id"),
        event=identifiers.check(row.get("event")),
        sha=identifiers.sha(row.get("head_sha")),
        status=_status(row),
        attempt=number(row, "run_attempt"),
        created=moment(row, "created_at"),
    )


def _status(row: Table) -> str:
    """Return one of our four words; a conclusion that is not known counts as a failure."""
    status, conclusion = text(row, "status"), row.get("conclusion")
    if status == "action_required" or conclusion == "action_required":
        return "approval"
    if status != "completed":
        return "running"
    return "passed" if conclusion in PASSING else "failed"


def _job(row: Table) -> Job:
    conclusion = "" if row.get("conclusion") is None else text(row, "conclusion")
    failed = text(row, "status") == "completed" and conclusion not in PASSING
    return Job(_id(row), identifiers.check(row.get("name")), failed, identifiers.check(conclusion))
