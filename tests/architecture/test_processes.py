"""Importing, compiling and running start no process: `pip install` is the whole toolchain."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = """
import rushlight as rl

layer = rl.nn.Linear(8, 4)
optimizer = rl.optim.AdamW(layer.parameters())

@rl.compile
def step(x):
    optimizer.zero_grad()
    loss = rl.nn.functional.gelu(layer(x)).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for batch in (3, 64):
    step(rl.ones(batch, 8))
(rl.rand(300, 300) @ rl.rand(300, 300)).sum().item()
"""
WATCH = """
import sys

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "os.spawn"}

def watch(event, arguments):
    if event in STARTS:
        raise SystemExit(f"{event}{arguments}")

sys.addaudithook(watch)
"""


def environment(folder: Path) -> dict[str, str]:
    """An environment with an empty kernel cache and nothing on PATH."""
    path = os.pathsep.join([entry for entry in sys.path if entry])
    return {"RUSHLIGHT_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path, "PATH": "", "HOME": str(folder)}


@pytest.mark.core
def test_no_audited_event_starts_a_process(tmp_path: Path):
    for _ in ("an empty cache", "a warm one"):
        done = subprocess.run(
            [sys.executable, "-c", WATCH + TRAIN],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_hook_would_notice(tmp_path: Path):
    program = WATCH + "import subprocess; subprocess.run(['true'])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "subprocess.Popen" in done.stderr


def can_trace() -> bool:
    """Whether strace is here and may trace."""
    strace = shutil.which("strace")
    return strace is not None and subprocess.run([strace, "-o", os.devnull, "true"], check=False).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
def test_the_system_sees_threads_alone(tmp_path: Path):
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-e", "trace=process", "-o", str(trace), sys.executable, "-c", TRAIN]
    subprocess.run(
        command, env={**environment(tmp_path), "PATH": os.environ["PATH"]}, check=True, capture_output=True, timeout=200
    )
    lines = trace.read_text().splitlines()
    starts = [line for line in lines if any(f"{call}(" in line for call in ("clone", "clone3", "fork"))]
    assert all("CLONE_THREAD" in line or "resumed" in line for line in starts), starts
    assert sum("execve(" in line for line in lines) == 1
