"""Row 12.3: a session is written down, and plays again from a scrubbed bundle, call by call."""

import json
import random

import pytest

from interleavings import random_stage
from kills import Killed, Killer, Mortal
from mergedog.bundle import read_bundle, replay, scrubbed, write_bundle
from mergedog.codec import decode, encode
from mergedog.errors import RateLimited, StateError, Unavailable
from mergedog.secrets import Secret, scrub
from mergedog.session import World
from mergedog.shepherd import Shepherd
from mergedog.simulated.forge import SimForge
from mergedog.tape import TAPES, Diverges, RecordedStore, next_tape, read_tape, recorded
from mergedog.untrusted import Untrusted
from scenarios import SCENARIOS

SECRET = "ghp_" + "Zz9" * 12


def record(stage, folder, killer=None) -> None:
    """Play a stage with a tape, once."""
    tape = next_tape(folder)
    world = World(SimForge(stage.hub), stage.repository, stage.agent, stage.clock)
    if killer:
        world = World(*(Mortal(each, killer) for each in (world.forge, world.repository, world.agent, world.clock)))
    store = RecordedStore(folder, tape)
    tape.begin(store.load(stage.hub.name, 1), stage.rules())
    end = stage.clock.time + 48 * 3600
    Shepherd(recorded(world, tape), stage.rules(), store, stage.hub.name, 1).run(
        lambda outcome: stage.settled(outcome) or stage.clock.time > end
    )


SOME = ("network_flake", "lint_failure", "push_after_approval", "stale_base", "merge_conflict", "server_errors")


@pytest.mark.row("12.3")
@pytest.mark.parametrize("name", [*SOME, "rate_limit", "agent_calls_it_spurious", "rebase_by_the_bot"])
def test_a_bundle_replays(name, tmp_path):
    stage = SCENARIOS[name].stage()
    stage.hub.pulls[1].body = f"password=hunter2hunter2 and {SECRET}"
    stage.hub.say(1, f"see https://me:{SECRET}@example.org")
    folder = tmp_path / "pull-1"
    record(stage, folder)
    bundle = tmp_path / "bundle.json"
    assert write_bundle(folder, bundle) == 1
    assert SECRET not in bundle.read_text() and "hunter2" not in bundle.read_text()
    (session,) = read_bundle(bundle)
    result = replay(session)
    assert result.state == stage_state(folder, stage)
    assert result.calls == len(session) - 1


def stage_state(folder, stage):
    from mergedog.state import Store

    return Store(folder).load(stage.hub.name, 1)


@pytest.mark.row("12.3")
@pytest.mark.parametrize("seed", range(12))
def test_killed_sessions_replay_up_to_the_kill(seed, tmp_path):
    draw = random.Random(seed)
    stage = random_stage(draw)
    for _ in range(4):
        try:
            record(stage, tmp_path / "pull-1", Killer(draw, 0.01, 1))
        except Killed:
            stage.clock.time += 1
    bundle = tmp_path / "bundle.json"
    assert write_bundle(tmp_path / "pull-1", bundle) == 4
    for session in read_bundle(bundle):
        replay(session)


def test_a_tape_whose_last_line_is_cut_off_is_read(tmp_path):
    record(SCENARIOS["green"].stage(), tmp_path)
    path = tmp_path / "tape-000001.jsonl"
    whole = read_tape(path)
    path.write_bytes(path.read_bytes()[:-5])
    assert read_tape(path) == whole[:-1]


def test_a_replay_that_diverges_says_where(tmp_path):
    record(SCENARIOS["green"].stage(), tmp_path)
    session = read_tape(tmp_path / "tape-000001.jsonl")
    with pytest.raises(Diverges, match=r"call \d+ is .* was recorded"):
        replay([*session[:2], *session[3:]])
    calls = [place for place, line in enumerate(session) if line.get("call") == "runs"]
    wrong = [dict(line) for line in session]
    wrong[calls[-1]]["result"] = []
    with pytest.raises(Diverges):
        replay(wrong)
    with pytest.raises(Diverges):
        replay([{**session[0], "policy": "[timing]\nsettle_seconds = 1.0\n"}, *session[1:]])


def test_old_tapes_go(tmp_path):
    for _ in range(TAPES + 3):
        next_tape(tmp_path).add({})
    assert sorted(path.stem for path in tmp_path.iterdir()) == [f"tape-{n:06}" for n in range(4, TAPES + 4)]


def test_values_come_back(tmp_path):
    stage = SCENARIOS["lint_failure"].stage()
    forge = SimForge(stage.hub)
    values = [forge.pull(1), forge.reviews(1), forge.runs(stage.hub.head(1)), tmp_path, None, 1.5, True, "a"]
    values.append(Untrusted("a", "b"))
    for value in values:
        assert decode(json.loads(json.dumps(encode(value)))) == value
    limited = decode(encode(RateLimited(5.0)))
    assert isinstance(limited, RateLimited) and limited.until == 5.0
    assert str(decode(encode(Unavailable("a")))) == "a"
    with pytest.raises(StateError):
        encode(object())
    with pytest.raises(StateError):
        decode({"kind": "Popen", "fields": {}})


SECRETS = (
    SECRET,
    "github_pat_" + "a1" * 20,
    "glpat-" + "a1" * 10,
    "AKIA" + "A1" * 8,
    "xoxb-1234567890-abc",
    "sk-" + "a1" * 20,
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSM",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_scrubbed(secret):
    for text in (secret, f"a {secret} b", f"x={secret}\n"):
        assert secret not in scrub(text) and "(secret removed)" in scrub(text)
    assert scrub("Authorization: Bearer abcdefgh1234") == "Authorization: Bearer (secret removed)"
    assert scrub("https://me:pass@host/x") == "https://(secret removed)@host/x"
    assert scrub("own", Secret("own")) == "(secret removed)"
    assert scrubbed({"a": [secret, 1, None]}) == {"a": [scrub(secret), 1, None]}
    assert scrub(scrub(f"token={secret}")) == scrub(f"token={secret}")


def test_what_is_no_bundle_is_said_so(tmp_path):
    path = tmp_path / "x"
    for text in ("", "[]", "{}", "\x00"):
        path.write_text(text)
        with pytest.raises(StateError, match="no bundle"):
            read_bundle(path)
