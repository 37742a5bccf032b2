"""The command as people run it: a process, a real clone, an agent, a forge behind HTTP, and a bundle afterwards."""

import os
import subprocess
import sys
import time

import pytest

from clones import Origin, mirror
from mergedog.clock import SystemClock
from mergedog.simulated.checks import Workflow
from mergedog.simulated.face import Face
from mergedog.simulated.hub import Hub
from mergedog.state import Store
from scenarios import LINT

TOKEN = "ghp_" + "T0ken" * 8
POLICY = """
[timing]
poll_seconds = 0.1
settle_seconds = 0.3
[full]
ref = ""
[governor]
per_minute = 100000
per_hour = 1000000
[agent]
environment = ["PATH", "GITHUB_TOKEN_COPY"]
"""


def command(tmp_path, face: Face, *arguments: str) -> list[str]:
    options = ["--state", str(tmp_path / "state"), "--api", face.url, "--policy", str(tmp_path / "policy.toml")]
    agent = f"{sys.executable} {tmp_path / 'agent.py'}"
    remote = str(tmp_path / "{repository}.git")
    return [sys.executable, "-m", "mergedog", *arguments, "--agent", agent, "--remote", remote, *options]


@pytest.mark.row("12.3")
def test_watch_shepherds_to_green_and_the_bundle_replays(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "agent.py").write_text(
        "import pathlib, subprocess, sys\n"
        "worktree = pathlib.Path(sys.argv[2])\n"
        "(worktree / 'y1.py').write_text('y = 2\\n')\n"
        "subprocess.run(['git', 'commit', '-q', '-a', '-m', '[mergedog] repair'], cwd=worktree, check=True)\n"
    )
    origin, clock = Origin(tmp_path), SystemClock()
    quick = {"delay": 0.0, "duration": 0.2}
    hub = Hub(clock, workflows=[Workflow("lint", LINT.jobs, **quick), Workflow("test", **quick)])
    mirror(origin, hub, origin.base, "mia")
    hub.refs["refs/heads/main"] = origin.base
    hub.open_pull(1, body=f"password={TOKEN}")
    mirror(origin, hub, origin.head, "ann")
    hub.move(1, origin.head, "ann")
    hub.review(1)
    own = {**os.environ, "GITHUB_TOKEN": TOKEN}
    with Face(hub, TOKEN) as face:
        call = command(tmp_path, face, "watch", "acme/widgets", "1", "2")
        process = subprocess.Popen(call, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 80
        while not hub.pulls[1].comments and time.monotonic() < deadline:
            time.sleep(0.05)
            head = origin.branch_head()
            if head != hub.head(1):  # a forge sees a push at once
                with face.lock:
                    mirror(origin, hub, head, "mergedog")
                    hub.move(1, head, "mergedog")
        with face.lock:
            hub.pulls[1].state = "merged"
        store = Store(tmp_path / "state" / "acme+widgets" / "pull-1")
        while store.load(hub.name, 1).waiting.phase != "done" and time.monotonic() < deadline:
            time.sleep(0.05)
        process.terminate()  # pull request 2 does not exist: its process waits, and nobody minds
        output = process.communicate(timeout=20)[0].decode()
    assert hub.acts == ["comment"] and origin.files(origin.branch_head())["y1.py"] == "y = 2\n", output
    bundle = tmp_path / "bundle.json"
    where = ["acme/widgets", "1", "--state", str(tmp_path / "state"), "--output", str(bundle)]
    subprocess.run([sys.executable, "-m", "mergedog", "bundle", *where], env=own, check=True, stdout=subprocess.DEVNULL)
    told = subprocess.run([sys.executable, "-m", "mergedog", "replay", str(bundle)], capture_output=True, text=True)
    assert told.returncode == 0 and "as recorded" in told.stdout, told
    everything = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert TOKEN.encode() not in b"".join([*everything, bundle.read_bytes(), output.encode()])
