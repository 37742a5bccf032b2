"""The hub's records in the shapes of GitHub's REST API."""

from datetime import UTC, datetime

from mergedog.records import Judgement
from mergedog.simulated.checks import SimRun
from mergedog.simulated.hub import Hub, SimComment, SimPull, SimReview
from mergedog.simulated.objects import digest

Table = dict[str, object]


def stamp(time: float) -> str:
    """Return a time as GitHub writes it, but with microseconds, so that simulations keep their order."""
    return datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z")


def pull_shape(hub: Hub, pull: SimPull) -> Table:
    """Return a pull request."""
    head = hub.head(pull.number, hub.now() - hub.lag)
    touched = max([pull.created, pull.edited, *(comment.updated for comment in pull.comments)])
    return {
        "number": pull.number,
        "title": pull.title,
        "body": pull.body or None,
        "user": {"login": pull.author},
        "state": "open" if pull.state == "open" else "closed",
        "merged": pull.state == "merged",
        "draft": pull.draft,
        "created_at": stamp(pull.created),
        "updated_at": stamp(touched),
        "head": {"sha": head, "ref": pull.branch, "repo": {"full_name": hub.name}},
        "base": {"ref": "main"},
    }


def edits_shape(pull: SimPull) -> Table:
    """Return the answer to the one question that goes to GraphQL."""
    edited = stamp(pull.edited) if pull.edited else None
    found: Table = {"lastEditedAt": edited, "timelineItems": {"nodes": []}}
    return {"data": {"repository": {"pullRequest": found}}}


def review_shape(review: SimReview) -> Table:
    """Return a review."""
    states = {Judgement.CHANGES_REQUESTED: "CHANGES_REQUESTED"}
    return {
        "user": {"login": review.author},
        "state": states.get(review.judgement, review.judgement.value.upper()),
        "commit_id": review.sha,
        "submitted_at": stamp(review.at),
    }


def comment_shape(comment: SimComment) -> Table:
    """Return a comment."""
    return {
        "id": comment.id,
        "user": {"login": comment.author},
        "body": comment.body,
        "updated_at": stamp(comment.updated),
    }


def run_shape(run: SimRun, now: float) -> Table:
    """Return a workflow run."""
    status, conclusion = {
        "approval": ("completed", "action_required"),
        "running": ("in_progress", None),
        "passed": ("completed", "success"),
        "failed": ("completed", "failure"),
    }[run.status(now)]
    return {
        "id": run.id,
        "name": run.workflow.name,
        "workflow_id": run.workflow.id,
        "event": run.workflow.on,
        "head_sha": run.sha,
        "status": status,
        "conclusion": conclusion,
        "run_attempt": run.attempt,
        "created_at": stamp(run.created),
    }


def jobs_shape(run: SimRun) -> list[Table]:
    """Return the jobs of the newest attempt; each has its place in the run as last two digits."""
    return [
        {"id": run.id * 100 + place, "name": name, "status": "completed", "conclusion": result.conclusion}
        for place, (name, result) in enumerate(run.results().items())
    ]


def tag(body: bytes) -> str:
    """Return an entity tag."""
    return f'W/"{digest(body)[:16]}"'
