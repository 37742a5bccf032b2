"""Poisoned memory: what a call finds in memory that nobody wrote is the byte that was set."""

import subprocess
import sys

PROGRAM = """
import rushlight as rl

layer = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.BatchNorm1d(3))
optimizer = rl.optim.SGD(layer.parameters(), lr=0.1)

@rl.compile
def step(x):
    optimizer.zero_grad()
    loss = layer(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(2):
    print(step(rl.ones(4, 3)).item())
"""


def test_a_training_step_runs_on_poisoned_memory(tmp_path):
    """A step that commits what it changed is called with its commit, poisoned or not, and gives the same numbers."""
    environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment | {"RUSHLIGHT_POISON": poison},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for poison in ("0", "255")
    ]
    assert printed[0] == printed[1]
    assert "nan" not in printed[0]
