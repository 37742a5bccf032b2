"""The repository of git, and agents that are commands, in real folders."""

import os
import sys
from pathlib import Path

import pytest

from clones import BASE_TIME, MirroredRepository, Origin, mirror
from mergedog.agent import Accepted, How, Rejected, Spurious, judge_work
from mergedog.clock import ManualClock
from mergedog.command import CommandAgent
from mergedog.errors import Conflict, Diverged, RepositoryError
from mergedog.git import credentials, disarm, environment
from mergedog.github.forge import GitHub
from mergedog.github.transport import Transport
from mergedog.policy import AgentRules, policy_from
from mergedog.secrets import Secret
from mergedog.session import World
from mergedog.shepherd import Shepherd
from mergedog.simulated.face import Face
from mergedog.simulated.hub import Hub
from mergedog.state import Store
from mergedog.trust import commit_record
from scenarios import LINT, TRUNK


@pytest.fixture
def origin(tmp_path):
    return Origin(tmp_path)


@pytest.fixture
def repository(origin, tmp_path):
    cloned = origin.repository(tmp_path)
    cloned.fetch(origin.pull())
    return cloned


def test_facts_of_commits(origin, repository):
    assert repository.base_head("main") == origin.base
    assert repository.on_base(origin.base, "main") and not repository.on_base(origin.head, "main")
    assert repository.base_time(origin.head, "main") == BASE_TIME
    (patch,) = repository.lineage(origin.head, "main")
    assert (patch.sha, patch.parents) == (origin.head, (origin.base,))
    assert repository.tree(origin.head) == origin.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(RepositoryError):
        repository.tree("0" * 40)


@pytest.mark.row("12.2")
def test_a_rebase_has_the_same_patch_id_and_white_space_does_not(origin, repository):
    before = commit_record(origin.head, "", repository, "main").patches
    origin.advance_base({"z.py": "z = 1\n"})
    origin.git("rebase", "-q", "main")
    rebased = origin.git("rev-parse", "HEAD")
    origin.git("push", "-q", "-f", "origin", "topic-1")
    repository.fetch(origin.pull(rebased))
    assert rebased != origin.head and commit_record(rebased, "", repository, "main").patches == before
    (origin.clone / "y1.py").write_text("  y = 1\n")
    origin.git("commit", "-q", "-a", "--amend", "-m", "Add y")
    indented = origin.git("rev-parse", "HEAD")
    origin.git("push", "-q", "-f", "origin", "topic-1")
    repository.fetch(origin.pull(indented))
    assert commit_record(indented, "", repository, "main").patches != before


def test_merges_of_the_base_branch(origin, repository):
    base = origin.advance_base({"z.py": "z = 1\n"})
    repository.fetch(origin.pull())
    merge = repository.merge_base_into(origin.head, "main", "Merge branch main")
    repository.push(origin.pull(), merge, origin.head)
    assert origin.branch_head() == merge
    assert origin.git("show", "-s", "--format=%P", merge, at=origin.bare).split() == [origin.head, base]
    assert origin.files(merge).keys() == {"README", "lib.py", "y1.py", "z.py"}
    origin.advance_base({"y1.py": "y = 7\n"})
    repository.fetch(origin.pull())
    with pytest.raises(Conflict):
        repository.merge_base_into(merge, "main", "Merge branch main")


def test_a_push_replaces_only_what_was_judged(origin, repository):
    origin.advance_base({"z.py": "z = 1\n"})
    repository.fetch(origin.pull())
    ours = repository.merge_base_into(origin.head, "main", "Merge")
    theirs = origin.commit({"evil.py": "1\n"}, "More")
    origin.git("push", "-q", "origin", "topic-1")
    with pytest.raises(Diverged):
        repository.push(origin.pull(), ours, origin.head)
    assert origin.branch_head() == theirs
    origin.git("push", "-q", "-f", "origin", f"{origin.head}:refs/heads/topic-1")
    repository.push(origin.pull(), ours, origin.head)
    repository.push(origin.pull(), ours, origin.head)  # again, after a restart: nothing happens
    assert origin.branch_head() == ours


def script(tmp_path: Path, text: str) -> str:
    """Return the command of an agent that is a Python program; its arguments are prompt and worktree."""
    path = tmp_path / "agent.py"
    path.write_text(
        "import os, pathlib, subprocess, sys, time\n"
        "prompt, worktree = map(pathlib.Path, sys.argv[1:])\n"
        "def git(*a): return subprocess.run(['git', *a], cwd=worktree, capture_output=True, text=True)\n"
        "def commit(m='[mergedog] repair'): git('add', '-A'); git('commit', '-q', '-m', m)\n" + text
    )
    return f"{sys.executable} {path}"


def session(origin, repository, tmp_path, text, seconds=30.0, guarded=(), conflicted=False):
    """Let an agent work on the head, and return how that is judged, and the worktree."""
    worktree = repository.worktree(origin.head, "main", conflicted)
    agent = CommandAgent(script(tmp_path, text), ("PATH",), guarded)
    ending = agent.run("the prompt\n", worktree, seconds)
    return judge_work(ending, repository.work(worktree), AgentRules()), worktree


@pytest.mark.row("12.2")
def test_an_agents_commit_is_replayed_on_the_trusted_head(origin, repository, tmp_path):
    text = (
        "assert prompt.read_text() == 'the prompt\\n' and pathlib.Path.cwd() == worktree\n"
        "assert git('log', '--format=%s').stdout == 'The pull request\\n'\n"
        "assert git('remote').stdout == ''\n"
        "(worktree / 'y1.py').write_text('y = 2\\n'); commit()\n"
    )
    judged, worktree = session(origin, repository, tmp_path, text)
    assert isinstance(judged, Accepted)
    sha = repository.replay(judged.work, worktree, (origin.head,), "[mergedog] repair")
    repository.discard(worktree)
    repository.push(origin.pull(), sha, origin.head)
    assert (
        origin.git("show", "-s", "--format=%P %an %s", sha, at=origin.bare)
        == f"{origin.head} mergedog [mergedog] repair"
    )
    assert origin.files(sha) == {"README": "hello\n", "lib.py": "x = 1\n", "y1.py": "y = 2\n"}
    assert not worktree.exists()


REJECTED = {
    "no commit": ("", "the agent made no commit and gave no reason"),
    "fails": ("sys.exit(3)", "the agent failed"),
    "two commits": (
        "(worktree / 'a').write_text('1'); commit(); (worktree / 'b').write_text('1'); commit()",
        "the agent made 2 commits, and one is wanted",
    ),
    "no tag": (
        "(worktree / 'a').write_text('1'); commit('repair')",
        "the subject of the agent's commit does not begin with the tag",
    ),
    "workflow": (
        "(worktree / '.github').mkdir(); (worktree / '.github/a.yml').write_text('1'); commit()",
        "the agent's commit touches a protected path",
    ),
    "link": ("os.symlink('/etc/passwd', worktree / 'a'); commit()", "the agent's commit makes a link"),
    "submodule": (
        "git('update-index', '--add', '--cacheinfo', '160000,' + '1' * 40 + ',sub')\n"
        "git('commit', '-m', '[mergedog] x')",
        "the agent's commit makes a link",
    ),
    "empty": ("git('commit', '--allow-empty', '-m', '[mergedog] x')", "the agent's commit changes nothing"),
    "commit and reason": (
        "(worktree / 'a').write_text('1'); commit(); open(os.environ['MERGEDOG_SPURIOUS'], 'w').write('flaky')",
        "the agent made a commit and calls the failures spurious",
    ),
}


@pytest.mark.row("12.2")
@pytest.mark.parametrize("name", REJECTED)
def test_what_an_agent_may_not_do_is_rejected(name, origin, repository, tmp_path):
    text, why = REJECTED[name]
    judged, worktree = session(origin, repository, tmp_path, text)
    assert judged == Rejected(why)
    repository.discard(worktree)


def test_a_commit_on_other_history_is_not_replayed(origin, repository, tmp_path):
    text = "git('checkout', '--orphan', 'x'); commit(); git('branch', '-f', 'work')"
    judged, worktree = session(origin, repository, tmp_path, text)
    assert isinstance(judged, Accepted)
    with pytest.raises(RepositoryError, match="not on the commit"):
        repository.replay(judged.work, worktree, (origin.head,), "m")


def test_an_agent_that_hangs_is_ended_with_its_children(origin, repository, tmp_path):
    text = "subprocess.Popen(['sleep', '1000']); time.sleep(1000)"
    judged, _ = session(origin, repository, tmp_path, text, seconds=0.5)
    assert judged == Rejected("the agent did not end in time")
    assert "sleep\x001000" not in "".join(
        path.read_text() for path in Path("/proc").glob("[0-9]*/cmdline") if path.stat().st_uid == os.getuid()
    )


def test_an_agent_that_writes_into_the_harness_is_noticed(origin, repository, tmp_path):
    state = tmp_path / "state.json"
    state.write_text("{}")
    text = f"open({str(state)!r}, 'w').write('trusted'); (worktree / 'a').write_text('1'); commit()"
    judged, _ = session(origin, repository, tmp_path, text, guarded=(state,))
    assert judged == Rejected("the agent wrote outside of its worktree")


def test_a_reason_is_untrusted_and_scrubbed(origin, repository, tmp_path):
    text = "open(os.environ['MERGEDOG_SPURIOUS'], 'w').write('flaky ghp_' + 'a' * 36)"
    judged, _ = session(origin, repository, tmp_path, text)
    assert isinstance(judged, Spurious) and judged.reason.contains("flaky") and not judged.reason.contains("ghp_")


def test_an_agent_has_no_credentials(origin, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_" + "a" * 36)
    judged, _ = session(origin, repository, tmp_path, "sys.exit('GITHUB_TOKEN' in os.environ)")
    assert judged == Rejected("the agent made no commit and gave no reason")


def test_nothing_that_an_agent_leaves_in_its_repository_runs(origin, repository, tmp_path):
    mark = tmp_path / "ran"
    text = (
        f"hook = '#!/bin/sh\\ntouch {mark}\\n'\n"
        "for name in ('post-checkout', 'reference-transaction', 'pre-receive', 'update'):\n"
        "    path = worktree / '.git/hooks' / name; path.write_text(hook); path.chmod(0o755)\n"
        f"for key in ('core.fsmonitor', 'uploadpack.packObjectsHook', 'core.sshCommand', 'diff.external'):\n"
        f"    git('config', key, 'touch {mark}')\n"
        f"(worktree / '.gitattributes').write_text('* diff=x filter=x\\n')\n"
        f"git('config', 'diff.x.textconv', 'touch {mark}'); git('config', 'filter.x.smudge', 'touch {mark}')\n"
        "(worktree / '.git/objects/info').mkdir(exist_ok=True)\n"
        "(worktree / '.git/objects/info/alternates').write_text('/nonexistent/objects\\n')\n"
        "commit()\n"
        f"pathlib.Path({str(mark)!r}).unlink(missing_ok=True)\n"
    )
    judged, worktree = session(origin, repository, tmp_path, text)
    assert isinstance(judged, Accepted)
    repository.replay(judged.work, worktree, (origin.head,), "m")
    assert not mark.exists()


def test_a_replaced_repository_is_refused(origin, repository, tmp_path):
    worktree = repository.worktree(origin.head, "main", False)
    (worktree / ".git").rename(tmp_path / "elsewhere")
    (worktree / ".git").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RepositoryError):
        disarm(worktree / ".git")


def test_a_conflicted_worktree_has_markers(origin, repository, tmp_path):
    origin.advance_base({"y1.py": "y = 7\n"})
    repository.fetch(origin.pull())
    text = "assert '<<<<<<<' in (worktree / 'y1.py').read_text(); (worktree / 'y1.py').write_text('y = 8\\n'); commit()"
    judged, worktree = session(origin, repository, tmp_path, text, conflicted=True)
    assert isinstance(judged, Accepted)
    merge = repository.replay(judged.work, worktree, (origin.head, repository.base_head("main")), "[mergedog] resolve")
    repository.push(origin.pull(), merge, origin.head)
    assert origin.files(merge)["y1.py"] == "y = 8\n"


def test_a_command_that_does_not_exist_fails(tmp_path):
    assert CommandAgent("/nonexistent/agent").run("p", tmp_path, 1).how is How.FAILED


def test_the_token_of_git_is_in_no_argument():
    token = Secret("ghp_" + "a" * 36)
    own = environment(credentials(token, "https://github.com/{repository}.git"))
    assert own["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraHeader"
    assert credentials(token, "/srv/{repository}.git") == {}


@pytest.mark.row("12.1")
def test_from_end_to_end_with_git_a_command_and_http(origin, tmp_path):
    clock = ManualClock(BASE_TIME + 1000.0)
    hub = Hub(clock, workflows=[LINT, TRUNK])
    mirror(origin, hub, origin.base, "mia")
    hub.refs["refs/heads/main"] = origin.base
    hub.open_pull(1)
    mirror(origin, hub, origin.head, "ann")
    hub.move(1, origin.head, "ann")
    hub.review(1)
    command = script(tmp_path, "(worktree / 'y1.py').write_text('y = 2\\n'); commit()")
    store = Store(tmp_path / "pull-1")
    with Face(hub, "token", page=2) as face:
        transport = Transport(face.url, Secret("token"), clock)
        repository = MirroredRepository(origin, hub, tmp_path)
        world = World(GitHub(transport, hub.name), repository, CommandAgent(command, ("PATH",), (store.path,)), clock)
        policy = policy_from('[full]\nworkflows = ["trunk"]\n')
        shepherd = Shepherd(world, policy, store, hub.name, 1)
        outcome = shepherd.run(lambda outcome: getattr(outcome, "who", None) and outcome.who.value == "maintainer")
        transport.close()
    assert (outcome.why, hub.acts) == (
        "green: a human merges",
        ["push [mergedog] repair", "ref refs/tags/full/1", "comment"],
    )
    assert origin.files(origin.branch_head())["y1.py"] == "y = 2\n"
