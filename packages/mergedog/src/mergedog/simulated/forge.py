"""The in-memory forge, as a `Forge`."""

from mergedog import identifiers
from mergedog.errors import NotFound, RateLimited, Refused, Unavailable
from mergedog.records import Comment, Job, Pull, Review, Run
from mergedog.secrets import scrub
from mergedog.simulated.checks import SimRun
from mergedog.simulated.hub import BOT, Hub
from mergedog.untrusted import Untrusted


class SimForge:
    """One account's view of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def _called(self, name: str) -> Hub:
        """Note a call, and fail if the hub is down or asks to wait."""
        hub = self._hub
        hub.calls.append((hub.now(), name))
        if hub.now() < hub.down_until:
            raise Unavailable("the forge answers with 502")
        if hub.now() < hub.limited_until:
            raise RateLimited(hub.limited_until)
        return hub

    def me(self) -> str:
        """Return the login of the account that acts."""
        return BOT

    def pull(self, number: int) -> Pull:
        """Return a pull request as it is now."""
        hub = self._called("pull")
        if number not in hub.pulls:
            raise NotFound("there is no such pull request")
        pull = hub.pulls[number]
        return Pull(
            number=number,
            title=Untrusted(scrub(pull.title), "title"),
            body=Untrusted(scrub(pull.body), "description"),
            author=pull.author,
            head=hub.head(number, hub.now() - hub.lag),
            head_branch=pull.branch,
            head_repository=hub.name,
            base_branch="main",
            open=pull.state == "open",
            merged=pull.state == "merged",
            draft=pull.draft,
            created=pull.created,
            edited=pull.edited,
        )

    def reviews(self, number: int) -> tuple[Review, ...]:
        """Return all reviews, oldest first."""
        reviews = self._called("reviews").pulls[number].reviews
        return tuple(Review(review.author, review.judgement, review.sha, review.at) for review in reviews)

    def may_approve(self, login: str) -> bool:
        """Whether an account may write to the repository."""
        return login in self._called("permission").writers

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Return all comments, oldest first."""
        comments = self._called("comments").pulls[number].comments
        return tuple(
            Comment(comment.id, comment.author, Untrusted(scrub(comment.body), "comment"), comment.updated)
            for comment in comments
        )

    def committer(self, sha: str) -> str:
        """Return the login of the committer."""
        return self._called("committer").objects[sha].committer

    def runs(self, sha: str) -> tuple[Run, ...]:
        """Return all workflow runs at a commit."""
        hub = self._called("runs")
        return tuple(
            Run(
                id=run.id,
                workflow=identifiers.check(run.workflow.name),
                workflow_id=run.workflow.id,
                event=run.workflow.on,
                sha=sha,
                status=run.status(hub.now()),
                attempt=run.attempt,
                created=run.created,
            )
            for run in hub.visible_runs(sha)
        )

    def jobs(self, run: int) -> tuple[Job, ...]:
        """Return the jobs of the newest attempt of a run; each has its place in the run as last two digits."""
        results = self._run("jobs", run).results()
        return tuple(
            Job(run * 100 + place, identifiers.check(name), result.conclusion != "success", result.conclusion)
            for place, (name, result) in enumerate(results.items())
        )

    def log(self, job: int) -> Untrusted:
        """Return the log of a job."""
        results = list(self._run("log", job // 100).results().values())
        return Untrusted(scrub(results[job % 100].log), "log")

    def incidents(self, label: str) -> tuple[int, ...]:
        """Return the numbers of open incidents."""
        return tuple(self._called("incidents").incidents)

    def ref(self, name: str) -> str:
        """Return the commit of a ref, empty if there is none."""
        return self._called("ref").refs.get(name, "")

    def approve_run(self, run: int) -> None:
        """Let a run begin."""
        waiting = self._run("approve", run)
        if not waiting.gated:
            raise Refused("the run does not wait")
        self._hub.approve(waiting)

    def rerun_failed(self, run: int) -> None:
        """Run failed jobs again."""
        failed = self._run("rerun", run)
        if failed.status(self._hub.now()) != "failed":
            raise Refused("the run has not failed")
        self._hub.rerun(failed)

    def set_ref(self, name: str, sha: str) -> None:
        """Make a ref point at a commit."""
        self._called("set ref").set_ref(name, sha)

    def comment(self, number: int, body: str) -> int:
        """Write a comment and return its id."""
        hub = self._called("comment")
        hub.acts.append("comment")
        return hub.say(number, body, BOT).id

    def edit_comment(self, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        hub = self._called("edit comment")
        for pull in hub.pulls.values():
            for mine in pull.comments:
                if mine.id == comment and mine.author == BOT:
                    mine.body, mine.updated, mine.edits = body, hub.now(), mine.edits + 1
                    hub.acts.append("edit comment")
                    return
        raise NotFound("there is no such comment of ours")

    def _run(self, name: str, run: int) -> SimRun:
        hub = self._called(name)
        if run not in hub.runs:
            raise NotFound("there is no such run")
        return hub.runs[run]
