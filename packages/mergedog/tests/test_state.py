"""The state on disk, the policy, the rules for logs."""

import dataclasses
import json

import pytest

from mergedog.errors import BoundReached, PolicyError, StateError
from mergedog.policy import Policy, default_text, policy_from, read_policy
from mergedog.rules import Cure, diagnose
from mergedog.state import AgentSession, Approval, Pending, State, Store, TrustedCommit, decoded, encoded
from mergedog.untrusted import Untrusted, reveal


def a_state() -> State:
    state = State("acme/widgets", 3)
    state.approval = Approval("a" * 40, "mia", 1.5)
    state.trusted["a" * 40] = TrustedCommit("b" * 40, "approved by mia", ["p"])
    state.pending = Pending("c" * 40, "a" * 40, "fix")
    state.sessions.append(AgentSession("fix", "a" * 40, "rejected", "why"))
    state.begin("x:1", "x", 2)
    return state


def test_a_state_comes_back(tmp_path):
    store = Store(tmp_path)
    store.save(a_state())
    assert store.load("acme/widgets", 3) == a_state()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    with pytest.raises(StateError, match="is about"):
        store.load("acme/widgets", 4)


def test_entries_of_later_versions_are_kept():
    table = json.loads(encoded(a_state()))
    again = json.loads(encoded(decoded(json.dumps({**table, "colour": {"of": "dog"}}))))
    assert again == {**table, "colour": {"of": "dog"}}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"schema": 99}', '{"schema": 1}', '{"schema": "1"}'])
def test_a_state_that_cannot_be_used_is_said_so(text):
    with pytest.raises(StateError):
        decoded(text)


def test_a_crash_while_writing_leaves_the_old_state(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.save(a_state())
    before = store.path.read_text()
    monkeypatch.setattr("os.fsync", lambda file: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.save(State("acme/widgets", 3))
    assert store.path.read_text() == before


def test_an_action_is_counted_once_and_bounded():
    state = State("acme/widgets", 1)
    state.begin("rerun:1", "reruns", 2)
    state.begin("rerun:1", "reruns", 2)
    assert state.counts == {"reruns": 1}
    state.finish("rerun:1", "done")
    state.begin("rerun:2", "reruns", 2)
    with pytest.raises(BoundReached):
        state.begin("rerun:3", "reruns", 2)
    assert decoded(encoded(state)).counts == {"reruns": 2}


def test_the_default_policy_is_what_the_records_say():
    policy, plain = policy_from(""), Policy()
    for field in dataclasses.fields(Policy):
        if field.name not in ("rules", "text"):
            assert getattr(policy, field.name) == getattr(plain, field.name), field.name
    assert (policy.bounds.fixes, policy.timing.base_days) == (5, 7.0)
    assert (policy.governor.per_minute, policy.governor.per_hour) == (20, 3000)
    assert dataclasses.replace(policy_from(default_text()), text="") == policy


def test_a_policy_file_says_what_differs(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('[bounds]\nfixes = 1\n[timing]\nbase_days = 3\n[trust]\nmaintainers = ["mia"]\n')
    policy = read_policy(path)
    assert (policy.bounds.fixes, policy.bounds.merges, policy.timing.base_days) == (1, 3, 3.0)
    assert policy.trust.maintainers == ("mia",) and policy.rules == policy_from("").rules


WRONG = {
    "x = 1": "is no table",
    "[bounds]\nfix = 1": "no such entry",
    "[bounds]\nfixes = -1": "negative",
    "[bounds]\nfixes = true": "int is wanted",
    "[bounds]\nfixes = '5'": "int is wanted",
    "[trust]\nmaintainers = 'mia'": "a list of texts",
    "[trust]\nmaintainers = [1]": "a list of texts",
    "[[rule]]\nname = 'a'\npattern = '('\nverdict = 'fix'": "rule a",
    "[[rule]]\nname = 'a'\npattern = 'b'\nverdict = 'guess'": "rule a",
    "[[rule]]\nname = 'a'\nverdict = 'fix'": "rule a",
    "[[rule]]\nname = 'a'\npattern = 'b'\nverdict = 'fix'\nother = 1": "rule a",
    "[": "no TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_policy_is_told(text):
    with pytest.raises(PolicyError, match=WRONG[text]):
        policy_from(text)


def diagnosed(log: str, conclusion: str = "failure", policy: str = "") -> tuple[str, Cure, str]:
    found = diagnose(policy_from(policy).rules, conclusion, Untrusted(log, "log"))
    return found.rule, found.cure, reveal(found.line, "a test")


@pytest.mark.row("12.3")
def test_the_first_rule_wins_and_the_last_line_is_quoted():
    log = "a.py:1:1: E501 long\nConnection timed out 1\nConnection timed out 2\nb.py:2:1: F401 unused\ndone\n"
    assert diagnosed(log) == ("network", Cure.RERUN, "Connection timed out 2")
    assert diagnosed(log.replace("timed out", "")) == ("lint", Cure.FIX, "b.py:2:1: F401 unused")
    assert diagnosed("nothing known\n") == ("unknown", Cure.FIX, "nothing known")
    assert diagnosed("", "cancelled") == ("cancelled", Cure.RERUN, "")


KNOWN = {
    "The runner has received a shutdown signal": "runner lost",
    "curl: (6) Could not resolve host: Temporary failure in name resolution": "network",
    "OSError: [Errno 28] No space left on device": "disk full",
    "FAILED tests/test_a.py::test_b - assert 1 == 2": "failed test",
    "src/a.c:4:2: error: expected ';'": "compiler",
    "2026-01-01T00:00:00Z src/a.py:4:2: E501 line too long": "lint",
}


@pytest.mark.parametrize("line", KNOWN)
def test_each_default_rule_knows_its_line(line):
    assert diagnosed(f"start\n{line}\nend\n")[0] == KNOWN[line]


def test_a_long_log_keeps_no_rule_busy():
    import time

    start = time.process_time()
    diagnosed("a/" * 2_000_000 + "\n" + "x" * 100 + "\n" + "a.b/c-" * 300 + "\n")
    assert time.process_time() - start < 2
