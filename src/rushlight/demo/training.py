"""The training step, the optimizer and the functions that only look. This too is PyTorch's API and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight.demo.model import GPT, loss_of

MAX_GRADIENT_NORM = 1.0


def make_optimizer(model: GPT, learning_rate: float, weight_decay: float) -> rl.optim.Optimizer:
    """AdamW that shrinks matrices alone: vectors are biases and norms, which have reason to be large."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return rl.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))


def set_rate(optimizer: rl.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def make_step(
    model: GPT, optimizer: rl.optim.Optimizer, call: Callable[[rl.Tensor], rl.Tensor] | None = None
) -> Callable[[rl.Tensor], tuple[rl.Tensor, rl.Tensor]]:
    """The whole training step as one function: windows [batch, length + 1] in, loss and gradient norm out.

    `call` computes the model's logits, where that is not the model itself.
    """

    def step(windows: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        optimizer.zero_grad()
        loss = loss_of(model if call is None else call, windows)
        loss.backward()
        norm = rl.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        return loss.detach(), norm

    return step


def make_held_out(model: GPT) -> Callable[[rl.Tensor], rl.Tensor]:
    """The loss of windows, without learning from them."""

    def held_out(windows: rl.Tensor) -> rl.Tensor:
        with rl.no_grad():
            return model.loss(windows)

    return held_out


def make_next_byte(model: GPT) -> Callable[[rl.Tensor], rl.Tensor]:
    """Logits [256] of the byte after tokens [1, length]."""

    def next_byte(tokens: rl.Tensor) -> rl.Tensor:
        with rl.no_grad():
            return model(tokens)[0, -1]

    return next_byte
