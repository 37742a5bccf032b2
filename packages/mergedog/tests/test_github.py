"""The GitHub client against the HTTP face of the in-memory forge."""

import io
import logging
import pickle
import traceback

import pytest

from mergedog.clock import ManualClock
from mergedog.errors import Malformed, MergedogError, NotFound, RateLimited, Refused, Unavailable
from mergedog.github.forge import GitHub
from mergedog.github.transport import Transport
from mergedog.records import Judgement
from mergedog.secrets import Secret
from mergedog.session import World
from mergedog.shepherd import Shepherd
from mergedog.simulated.checks import Workflow, fails, passes
from mergedog.simulated.face import Face
from mergedog.simulated.forge import SimForge
from mergedog.simulated.hub import Hub
from mergedog.untrusted import Untrusted
from scenarios import SCENARIOS
from simulation import Stage

TOKEN = "ghp_" + "S3cret" * 6
LOG = f"cloning with {TOKEN}\nFAILED t.py::test_a\n"


def a_hub() -> Hub:
    jobs = {"unit": fails(LOG), "docs": passes, "many": passes}
    workflows = [Workflow(f"w{number}", jobs, delay=0, duration=10) for number in range(5)]
    hub = Hub(workflows=workflows)
    hub.open_pull(1, title="A \u202etitle", body="")
    hub.review(1)
    for number in range(7):
        hub.say(1, f"comment {number}", "eve")
        hub.review(1, Judgement.COMMENTED, f"user{number}")
    hub.clock.sleep(20)
    return hub


@pytest.fixture
def face():
    with Face(a_hub(), TOKEN, page=2) as server:
        yield server


OPEN: list[Transport] = []


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()


def client(face: Face, token: str = TOKEN) -> GitHub:
    return connect(face.url, face.hub.clock, token)


def connect(url: str, clock=None, token: str = TOKEN) -> GitHub:
    OPEN.append(Transport(url, Secret(token), clock or ManualClock()))
    return GitHub(OPEN[-1], "acme/widgets")


@pytest.mark.row("12.1")
def test_answers_are_those_of_the_forge_in_memory(face):
    forge, github = SimForge(face.hub), client(face)
    face.hub.edit_page(1, body="new")
    head = face.hub.head(1)
    run = forge.runs(head)[0].id
    job = forge.jobs(run)[0].id
    questions = [
        *(("me",), ("reviews", 1), ("comments", 1), ("runs", head), ("jobs", run), ("log", job), ("committer", head)),
        *(("may_approve", "mia"), ("may_approve", "eve"), ("incidents", "ci: incident"), ("ref", "refs/tags/full/1")),
        *(("ref", "refs/heads/main"),),
    ]
    for name, *arguments in questions:
        assert getattr(github, name)(*arguments) == getattr(forge, name)(*arguments), name
    ours, theirs = github.pull(1), forge.pull(1)
    # GraphQL is asked again when the page has changed, and times have microseconds on the wire.
    assert (ours.head, ours.title, ours.body, ours.author) == (theirs.head, theirs.title, theirs.body, theirs.author)
    assert ours.edited == pytest.approx(theirs.edited)
    assert type(ours.title) is type(github.log(job)) is type(github.comments(1)[0].body) is Untrusted


@pytest.mark.row("12.1")
def test_pages_are_followed_to_the_end(face):
    assert len(client(face).comments(1)) == 7
    asked = [path for method, path, status in face.requests if "comments" in path]
    assert len(asked) == 4 and asked[-1].endswith("page=4")
    assert len(client(face).runs(face.hub.head(1))) == 5
    assert len(client(face).jobs(client(face).runs(face.hub.head(1))[0].id)) == 3


def test_a_next_page_elsewhere_is_not_followed(face):
    link = '<http://evil.example/comments?page=2>; rel="next"'
    face.plant("comments", 200, b"[]", Link=link)
    with pytest.raises(Malformed):
        client(face).comments(1)
    face.plant("comments", 200, b"[]", times=100, Link=f'<{face.url}/comments>; rel="next"')
    with pytest.raises(Malformed, match="more than 50 pages"):
        client(face).comments(1)


def test_what_has_not_changed_is_not_sent_again(face):
    github = client(face)
    first = github.comments(1)
    assert github.comments(1) == first
    assert [status for _, path, status in face.requests if "comments" in path] == [200] * 4 + [304] * 4
    face.hub.say(1, "one more", "eve")
    assert len(github.comments(1)) == 8


def test_actions_arrive(face):
    github, hub = client(face), face.hub
    head, run = hub.head(1), github.runs(hub.head(1))[0]
    github.rerun_failed(run.id)
    with pytest.raises(Refused):
        github.rerun_failed(run.id)
    hub.runs[run.id].gated = True
    github.approve_run(run.id)
    github.set_ref("refs/tags/full/1", head)
    github.set_ref("refs/tags/full/1", face.hub.refs["refs/heads/main"])
    comment = github.comment(1, "hello")
    github.edit_comment(comment, "hello again")
    assert hub.acts == [
        *("rerun w0", "approve run w0", "ref refs/tags/full/1", "ref refs/tags/full/1", "comment", "edit comment"),
    ]
    assert hub.pulls[1].comments[-1].body == "hello again"
    with pytest.raises(NotFound):
        github.pull(99)


LIMITS = {
    "secondary": (403, b'{"message": "You have exceeded a secondary rate limit."}', {}, 60),
    "too many requests": (429, b"{}", {}, 60),
    "retry after": (403, b"{}", {"Retry_After": "7"}, 7),
    "retry after, 429": (429, b"{}", {"Retry_After": "7"}, 7),
    "reset": (403, b"{}", {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1700000500"}, None),
    "retry after nonsense": (429, b"{}", {"Retry_After": "soon"}, 60),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_say_until_when_to_wait(face, name):
    status, body, headers, seconds = LIMITS[name]
    face.plant("GET /repos", status, body, **headers)
    with pytest.raises(RateLimited) as caught:
        client(face).reviews(1)
    until = 1700000500 if seconds is None else face.hub.now() + seconds
    assert caught.value.until == until


MALFORMED = {
    "no JSON": b"<html>",
    "empty": b"",
    "cut off": b'{"number": 1, "ti',
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "nested without end": b"[" * 100_000,
    "other bytes": b"\xff\xfe\x00",
    "no head": b'{"number": 1, "head": null, "base": {"ref": "main"}}',
    "bad sha": b'{"head": {"sha": "--upload-pack=x", "ref": "a", "repo": null}, "base": {"ref": "main"}}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_answers_are_errors_of_ours(face, name):
    for call in (lambda: client(face).pull(1), lambda: client(face).runs(face.hub.head(1))):
        face.plant("GET /repos", 200, MALFORMED[name])
        if name == "a list":  # is a list of no reviews, and no pull request
            face.faults[-1].times[0] = 1
        with pytest.raises(Malformed):
            call()


@pytest.mark.parametrize(
    "field", ["title", "user", "state", "merged", "draft", "created_at", "updated_at", "head", "base"]
)
def test_each_entry_of_a_pull_request_is_checked(face, field):
    import json

    from mergedog.simulated.wire import pull_shape

    shape = pull_shape(face.hub, face.hub.pulls[1])
    for wrong in ({"x": []}, 7, "<!-- x -->" if field in ("user", "merged", "draft", "head", "base") else [1]):
        face.plant("GET .*/pulls/1$", 200, json.dumps({**shape, field: wrong}).encode())
        with pytest.raises(Malformed):
            client(face).pull(1)


def test_branches_that_git_would_take_for_something_else_are_malformed(face):
    for name in ("--force", "a..b", "a b", "a:b", "refs/../x", "a\nb", "x.lock", "+a"):
        face.hub.pulls[1].branch = name
        with pytest.raises(Malformed):
            client(face).pull(1)


def test_servers_that_fail_are_unavailable(face):
    for status in (500, 502, 503, 504):
        face.plant("GET", status, b"<html>")
        with pytest.raises(Unavailable):
            client(face).pull(1)
    gone = connect("http://127.0.0.1:9")
    with pytest.raises(Unavailable):
        gone.pull(1)


def test_a_log_is_fetched_without_the_token_and_has_none(face):
    github = client(face)
    job = github.jobs(github.runs(face.hub.head(1))[0].id)[0].id
    log = github.log(job)
    assert log.contains("FAILED") and not log.contains(TOKEN)
    assert face.requests[-1][1].startswith("/raw/") and face.requests[-1][2] == 200
    face.plant("/logs", 404)
    assert len(github.log(job)) == 0


def everything_shown(act, with_locals: bool) -> str:
    """Return what an exception shows in every way that programs show one."""
    shown = io.StringIO()
    try:
        act()
    except MergedogError as error:
        traceback.print_exc(file=shown)
        chain: BaseException | None = error
        while chain is not None:
            shown.write(f"{chain!r} {chain.args} {vars(chain)}")
            for frame, _ in traceback.walk_tb(chain.__traceback__):
                shown.write(repr(frame.f_locals) if with_locals else "")
            assert chain.__context__ is None or isinstance(chain.__context__, MergedogError)
            chain = chain.__context__
        return shown.getvalue()
    raise AssertionError("nothing was raised")


@pytest.mark.row("12.3")
def test_no_token_in_an_exception_or_a_log(face, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger().setLevel(logging.DEBUG)
    github = client(face)
    for echo in (b"no", TOKEN.encode()):  # also where the forge sends the token back
        face.plant("comments", 500, echo)
        face.plant("reviews", 403, b'{"message": "%s"}' % echo)
        face.plant("/runs", 200, b'"%s"' % echo)
    unreachable = connect("http://127.0.0.1:9")
    acts = [
        *(lambda: github.comments(1), lambda: github.reviews(1), lambda: github.runs(face.hub.head(1))),
        *(lambda: unreachable.pull(1), lambda: github.pull(99), lambda: client(face, "wrong").pull(1)),
    ]
    for act in acts:
        assert TOKEN not in everything_shown(act, with_locals=True)
    for act in acts:
        assert TOKEN not in everything_shown(act, with_locals=False)
    github.pull(1)
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(github) + repr(github.transport) + str(Secret(TOKEN)) + f"{Secret(TOKEN)}"
    with pytest.raises(TypeError):
        pickle.dumps(Secret(TOKEN))


SOME = (
    "green",
    "network_flake",
    "lint_failure",
    "push_after_approval",
    "rebase_by_the_bot",
    "stale_base",
    "rate_limit",
)


@pytest.mark.row("12.1")
@pytest.mark.parametrize(
    "name", [*SOME, "rate_limit", "server_errors", "incident_parks", "description_edited_after_approval"]
)
def test_scenario_through_the_client(name):
    scenario = SCENARIOS[name]
    stage: Stage = scenario.stage()
    with Face(stage.hub, TOKEN, page=2) as server:
        world = World(client(server), stage.repository, stage.agent, stage.clock)
        shepherd = Shepherd(world, stage.rules(), stage.store, stage.hub.name, 1)
        end = stage.start + 48 * 3600
        outcome = shepherd.run(lambda outcome: stage.settled(outcome) or stage.clock.time > end)
        assert (tuple(stage.hub.acts), stage.told(outcome)) == (scenario.acts, scenario.ending)
