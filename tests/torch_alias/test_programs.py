"""`rushlight run` and `python -m rushlight.torch`: what programs see, and how they end."""

from collections.abc import Callable
from pathlib import Path

TRAINING = """
import argparse
import importlib.metadata
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler as lr_scheduler
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(32, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=10)
    for _ in range(arguments.epochs):
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(data.to(device)), target)
            loss.backward()
            optimizer.step()
        scheduler.step()
    print(arguments.epochs, loss.item() < 1.0, torch.__version__, importlib.metadata.version("torch"), __name__)


if __name__ == "__main__":
    main()
"""


def test_a_training_script_runs_unchanged(run: Callable):
    ended = run(TRAINING, "--epochs", "8")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "8 True 2.13.0 2.13.0 __main__\n"
    assert ended.stderr == ""


def test_missing_names_are_listed_at_the_end_and_the_command_is_the_same(run: Callable):
    program = """
import sys
import torch
for _ in range(3):
    hasattr(torch, "choose_qparams_optimized")
try:
    from torch.nn import LPPool99d
except ImportError:
    pass
try:
    from torch.nn import quantized
except ImportError as problem:
    print(problem.name, "rushlight" in str(problem))
try:
    import torch.caffe
except ModuleNotFoundError as problem:
    print(problem.name)
try:
    torch.ones(2).to_mkldnn()
except AttributeError as problem:
    print(problem.code)
print(sys.argv)
sys.exit(7)
"""
    ended = run(program, "a", "--help", command=("rushlight", "run", "script.py"))
    assert ended.returncode == 7
    assert ended.stdout == "torch.nn True\ntorch.caffe\nN001\n['script.py', 'a', '--help']\n"
    assert ended.stderr == (
        "rushlight: torch names that do not exist here: "
        "torch.Tensor.to_mkldnn (1), torch.caffe (1), torch.choose_qparams_optimized (3), torch.nn.quantized (1)\n"
    )


def test_an_exception_is_shown_from_the_programs_first_line_on(run: Callable):
    ended = run("import torch\n\ndef f():\n    raise ValueError('no')\n\nf()\n")
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert 'script.py", line 6, in <module>' in lines[1]
    assert lines[-1] == "ValueError: no"
    assert "runpy" not in ended.stderr and "program.py" not in ended.stderr


def test_modules_run_by_name_with_their_arguments(run: Callable, tmp_path: Path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys, torch\nprint(__name__, sys.argv[1:], torch.ones(2).sum().item(), sys.path[0])\n"
        "sys.exit('a text')\n"
    )
    ended = run("", "-m", "package", "-x", command=("rushlight.torch",))
    assert ended.stdout == f"__main__ ['-x'] 2.0 {tmp_path}\n"
    assert (ended.returncode, ended.stderr) == (1, "a text\n")


def test_a_script_that_is_not_there_is_a_usage_error(run: Callable):
    ended = run("", command=("rushlight.torch", "nothing.py"))
    assert ended.returncode == 2
    assert "can't open file 'nothing.py'" in ended.stderr
