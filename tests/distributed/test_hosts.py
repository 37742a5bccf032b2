"""Jobs of two machines: network namespaces, which an agent reaches, and whose link is cut. They need root."""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from job_processes import gone, pids

NAMES = [f"rl{os.getpid()}{end}" for end in "ab"]
ADDRESSES = ["10.77.0.1", "10.77.0.2"]


def ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, timeout=20, check=False).returncode == 0


def may_make_namespaces() -> bool:
    if os.geteuid() or shutil.which("ip") is None or importlib.util.find_spec("mpi4py") is None:
        return False
    return ip("netns", "add", NAMES[0]) and ip("netns", "del", NAMES[0])


pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="needs mpi4py, root and ip netns")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Path]:
    """Two namespaces with a link between them; the agent that reaches them."""
    one, other = NAMES
    try:
        for name in NAMES:
            assert ip("netns", "add", name)
        assert ip("link", "add", one, "netns", one, "type", "veth", "peer", "name", other, "netns", other)
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            assert ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
            assert ip("-n", name, "link", "set", "lo", "up") and ip("-n", name, "link", "set", name, "up")
        agent = tmp_path / "agent"
        cases = "".join([f"{address}) name={name};; " for name, address in zip(NAMES, ADDRESSES, strict=True)])
        agent.write_text(f'#!/bin/sh\ncase $1 in {cases}esac\nshift\nexec ip netns exec $name sh -c "$*"\n')
        agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
        yield agent
    finally:
        for name in NAMES:
            ip("netns", "del", name)


def launch(agent: Path, program: str) -> subprocess.Popen[str]:
    script = agent.parent / "script.py"
    script.write_text(textwrap.dedent(program))
    options = ["-n", "2", "--hosts", ",".join([f"{address}:1" for address in ADDRESSES]), "--agent", str(agent)]
    command = ["ip", "netns", "exec", NAMES[0], sys.executable, "-m", "rushlight", "launch", *options, str(script)]
    # Without this MPI finds that both are one machine, and moves data through its memory.
    environment = {**os.environ, "UCX_TLS": "tcp,self"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_ranks_of_two_machines_exchange_and_a_cut_link_is_told_within_the_timeout(hosts: Path):
    program = """
    import os, time
    import torch
    import torch.distributed as dist
    from datetime import timedelta

    dist.init_process_group("gloo", timeout=timedelta(seconds=2))
    total = torch.ones(3) * (dist.get_rank() + 1)
    dist.all_reduce(total)
    place = os.environ["LOCAL_RANK"] + " of " + os.environ["LOCAL_WORLD_SIZE"]
    os.write(1, f"[{os.getpid()}] {total.tolist()} {place};".encode())
    while True:
        dist.all_reduce(total, op=dist.ReduceOp.MAX)
        time.sleep(0.01)
    """
    with launch(hosts, program) as process:
        assert process.stdout is not None and process.stderr is not None
        text = ""
        while text.count(";") < 2:
            piece = process.stdout.read(1)
            assert piece, process.stderr.read()
            text += piece
        assert ip("-n", NAMES[1], "link", "set", NAMES[1], "down")
        begin = time.monotonic()
        try:
            _, told = process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert text.count("[3.0, 3.0, 3.0] 0 of 1;") == 2, text
    assert process.returncode == 1 and "W007: distributed: waited 2 s for rank of another machine" in told, told
    assert time.monotonic() - begin < 30
    assert len(pids(text)) == 2 and gone(pids(text), 20)
