"""Networks that train for 200 steps with hooks: compiled autograd gives the gradients and the log of eager code."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.compiler import compiled_autograd
from rushlight.compiler.callback import callback_handler

STEPS = 200


class Attention(rl.nn.Module):
    """A block of a transformer, and what reads it."""

    def __init__(self):
        super().__init__()
        self.project = rl.nn.Linear(8, 24)
        self.norm = rl.nn.LayerNorm(8)
        self.out = rl.nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.project(self.norm(x)).chunk(3, dim=-1)
        y = rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return rl.nn.functional.gelu(x + self.out(y))


NETWORKS = {
    "mlp": (lambda: rl.nn.Sequential(rl.nn.Linear(6, 12), rl.nn.ReLU(), rl.nn.Linear(12, 3)), (4, 6)),
    "cnn": (
        lambda: rl.nn.Sequential(
            rl.nn.Conv2d(2, 4, 3, padding=1),
            rl.nn.BatchNorm2d(4),
            rl.nn.ReLU(),
            rl.nn.MaxPool2d(2),
            rl.nn.Flatten(),
            rl.nn.Linear(16, 3),
        ),
        (3, 2, 4, 4),
    ),
    "transformer": (Attention, (2, 5, 8)),
}


def train(name, log, compiled):
    """The gradients of all steps, as bytes; each parameter has a hook that computes and one that logs."""
    rl.manual_seed(0)
    make, shape = NETWORKS[name]
    network = make()
    for number, parameter in enumerate(network.parameters()):
        parameter.register_hook(lambda g: g.clamp(-1, 1))
        parameter.register_hook(lambda g, number=number: log.append((number, g.shape)))
        parameter.register_post_accumulate_grad_hook(lambda p, number=number: log.append(("sum", number)))
    optimizer = rl.optim.SGD(network.parameters(), lr=0.05)
    found, rng = [], np.random.default_rng(1)
    for _ in range(STEPS):
        loss = network(rl.tensor(rng.normal(size=shape).astype("float32"))).square().mean()
        optimizer.zero_grad()
        with compiled_autograd.enable() if compiled else compiled_autograd.disable():
            loss.backward()
        found.append(b"".join([parameter.grad.numpy().tobytes() for parameter in network.parameters()]))
        optimizer.step()
    return found


@pytest.mark.row("2.2")
@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", NETWORKS)
def test_two_hundred_steps_with_hooks_are_those_of_eager_code(name):
    logs, compilations = ([], []), []
    compiled_autograd.reset()
    callback_handler.register_start_callback(compilations.append)
    try:
        assert train(name, logs[0], False) == train(name, logs[1], True)
    finally:
        callback_handler.clear()
    assert logs[0] == logs[1] != []
    assert 1 <= len(compilations) <= 2
    assert compiled_autograd.program_count() <= 2
    compiled_autograd.reset()
