"""Names below `torch.distributed` that training scripts import, and its modules that are commands."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.torch import torchrun

NAMES = {
    "torch.distributed": "TCPStore FileStore HashStore PrefixStore Store new_subgroups new_subgroups_by_enumeration "
    "split_group DistStoreError QueueEmptyError",
    "torch.distributed.distributed_c10d": "_set_pg_timeout _get_default_group ReduceOp new_group",
    "torch.distributed.pipelining": "pipeline SplitPoint pipe_split Pipe build_stage PipelineStage ScheduleGPipe",
    "torch.distributed.algorithms.join": "Join Joinable JoinHook",
    "torch.distributed.checkpoint": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "torch.distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "torch.distributed.checkpoint.format_utils": "dcp_to_torch_save torch_save_to_dcp",
    "torch.distributed.tensor.debug": "CommDebugMode",
    "torch.distributed.tensor.parallel": "PrepareModuleInputOutput",
    "torch.distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "torch.distributed.run": "main",
    "torch.distributed.launch": "main",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_there(torch, module: str) -> None:
    found = importlib.import_module(module)
    for name in NAMES[module].split():
        assert callable(getattr(found, name)), name


def test_the_type_of_reductions_has_pytorchs_name(torch) -> None:
    reduction = torch.distributed.ReduceOp
    assert isinstance(reduction.SUM, reduction.RedOpType)
    assert reduction.RedOpType.MAX == reduction.MAX


SCRIPT = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
assert x.item() == int(os.environ["WORLD_SIZE"]) == 2
sys.stdout.write(f"argument {' '.join(sys.argv[1:])} rank {os.environ['LOCAL_RANK']}\\n")
dist.destroy_process_group()
"""


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
@pytest.mark.parametrize(
    "words", [["torch.distributed.run", "--standalone"], ["torch.distributed.launch", "--use-env"]]
)
def test_ranks_are_started_by_the_modules_of_pytorch(tmp_path, words) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "rushlight",
        "run",
        "-m",
        *words,
        "--nproc_per_node=2",
        "script.py",
        "--epochs",
        "3",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", *[f"argument --epochs 3 rank {rank}" for rank in range(2)]]


def test_what_the_launchers_do_not_do_is_said() -> None:
    with pytest.raises(rl.RushlightError, match="one machine alone"):
        torchrun.main(["--nnodes=2", "script.py"])
    with pytest.raises(rl.RushlightError, match="is a number"):
        torchrun.main(["--nproc-per-node=gpu", "script.py"])
    with pytest.raises(rl.RushlightError, match="no --local-rank"):
        torchrun.launch_main(["script.py"])
