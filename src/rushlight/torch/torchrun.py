"""`python -m torch.distributed.run --nproc-per-node 2 script.py`, as `rushlight launch` does it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rushlight.distributed.launch import launch
from rushlight.runtime.limits import available_cores
from rushlight.support.errors import fail, require

__all__ = ["launch_main", "main"]

# Options that say how hosts find each other, or how PyTorch writes its logs.
_PASSED = (
    *("node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "master-addr", "master-port", "local-addr"),
    *(
        "monitor-interval",
        "start-method",
        "role",
        "log-dir",
        "redirects",
        "tee",
        "local-ranks-filter",
        "event-log-handler",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program on several ranks of this machine, and return the exit status. Errors: A002, A006."""
    given = _parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    if given.nnodes not in ("1", "1:1"):
        hint = "rushlight launch --hosts a:8,b:8 script.py"
        fail("A006", "torch.distributed.run: one machine alone", nnodes=given.nnodes, hint=hint)
    words = [sys.executable, "-m", "rushlight", "run", *(["-m"] if given.module else [])]
    command = [*([] if given.no_python else words), given.training_script, *given.training_script_args]
    return launch(command, _count(given.nproc_per_node), max_restarts=given.max_restarts)


def launch_main(arguments: Sequence[str] | None = None) -> int:
    """As `main`, by the options of `torch.distributed.launch`. A006 for scripts that get their rank as an argument."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = [word for word in words if word in ("--use-env", "--use_env")]
    hint = "read LOCAL_RANK from the environment, and pass --use-env"
    require(own, "A006", "torch.distributed.launch: scripts get no --local-rank", hint=hint)
    return main([word for word in words if word not in own])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("torch.distributed.run", allow_abbrev=False)
    parser.add_argument("--nproc-per-node", "--nproc_per_node", default="1")
    parser.add_argument("--nnodes", default="1")
    parser.add_argument("--max-restarts", "--max_restarts", type=int, default=0)
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--no-python", "--no_python", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    for name in _PASSED:
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", help=argparse.SUPPRESS)
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def _count(told: str) -> int:
    """How many ranks a machine has: a number, or "cpu" and "auto" for its processors."""
    if told in ("auto", "cpu"):
        return available_cores()
    fits = told.isdecimal() and int(told) >= 1
    require(fits, "A002", "torch.distributed.run: --nproc-per-node is a number, cpu or auto", given=told)
    return int(told)
