"""`rushlight demo dlrm`: a click model of embedding tables, trained on generated logs.

Under `rushlight launch` its tables are divided among the ranks as a plan says.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import rushlight as rl
from rushlight import Tensor, nn
from rushlight import distributed as dist
from rushlight.demo.clicks import DENSE, FEATURES, ROWS, ClickLog, area_under_curve
from rushlight.recsys import EmbeddingBagConfig, FusedEmbeddingBagCollection, KeyedJaggedTensor
from rushlight.recsys.distributed import DistributedModelParallel
from rushlight.recsys.optim import RowWiseAdagrad
from rushlight.recsys.planner import EmbeddingShardingPlanner, Topology
from rushlight.support.frozen import frozen

DIM = 16


@frozen
class Training:
    """How long and on what a model is trained: at most `seconds`, at most `steps` of `batch` examples."""

    seconds: float = 120.0
    steps: int = 1_000_000
    batch: int = 16384
    held_out: int = 100_000
    learning_rate: float = 0.1
    seed: int = 0
    every: float = 10.0


@frozen
class Outcome:
    """What a run came to: the areas under the curves of the model and of the true odds, on examples held out."""

    area: float
    best: float
    steps: int
    loss: float


class Dense(nn.Module):
    """The dense part: dense numbers become one more row, and products of all pairs of rows go on."""

    def __init__(self) -> None:
        super().__init__()
        count = len(FEATURES) + 1
        self.bottom = nn.Sequential(nn.Linear(DENSE, 32), nn.ReLU(), nn.Linear(32, DIM))
        self.top = nn.Sequential(nn.Linear(DIM + count * count, 64), nn.ReLU(), nn.Linear(64, 1))
        self.bias = nn.Linear(len(FEATURES), 1)

    def forward(self, dense: Tensor, pooled: Tensor) -> Tensor:
        """Return the logarithm of the odds of a click."""
        bottom = self.bottom(dense)
        rows = rl.cat([bottom.unsqueeze(1), pooled.reshape(dense.shape[0], len(FEATURES), DIM)], 1)
        products = (rows @ rows.mT).flatten(1)
        # A row's first number is the effect of its id alone.
        return (self.top(rl.cat([bottom, products], 1)) + self.bias(rows[:, 1:, 0])).squeeze(1)


class ClickModel(nn.Module):
    """Tables with their optimizer, and the dense part."""

    def __init__(self, learning_rate: float, device: str | None = None) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(rows, DIM, f"{name}_table", feature_names=[name])
            for name, rows in zip(FEATURES, ROWS, strict=True)
        ]
        self.sparse = FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": learning_rate}, device=device)
        self.dense = rl.compile(Dense())

    def forward(self, dense: Tensor, ids: KeyedJaggedTensor) -> Tensor:
        """Return the logarithm of the odds of a click."""
        return self.dense(dense, self.sparse(ids).values())


class Ranks:
    """The ranks of a run: each has a part of the tables and of every batch."""

    def __init__(self) -> None:
        self._is_own = not dist.is_initialized()
        if self._is_own:
            dist.init_process_group()
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def spread(self, model: ClickModel, batch: int, console: Console) -> nn.Module:
        """Return the model with its tables divided, and say how."""
        if self.size == 1:
            return model
        plan = EmbeddingShardingPlanner(Topology(self.size, "cpu"), batch).plan(model)
        for option in plan.options:
            where = ", ".join([str(rank) for rank in option.ranks])
            text = f"{option.name}: {option.sharding_type.value} on {where}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        return DistributedModelParallel(model, plan=plan)

    def all_go_on(self, goes_on: bool) -> bool:
        """Whether the first rank goes on: all do as it does."""
        if self.size == 1:
            return goes_on
        flag = rl.tensor([goes_on])
        dist.broadcast(flag, src=0)
        return bool(flag)

    def gathered(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the values of all ranks, one rank's after another's."""
        parts = [values] * self.size
        dist.all_gather_object(parts, values)
        return np.concatenate(parts)

    def close(self) -> None:
        """End the group that this run has made."""
        if self._is_own:
            dist.destroy_process_group()


def train(plan: Training, console: Console) -> Outcome:
    """Train a model; the first rank says how it goes, and what area is reached beside the best."""
    ranks = Ranks()
    try:
        outcome = _train(plan, ranks, console if ranks.rank == 0 else Console(quiet=True))
    finally:
        ranks.close()
    if ranks.rank == 0:
        console.print(f"AUC {outcome.area:.4f}; the true odds have {outcome.best:.4f}", highlight=False)
    return outcome


def _train(plan: Training, ranks: Ranks, console: Console) -> Outcome:
    rl.manual_seed(plan.seed)
    log, size = ClickLog(plan.seed), plan.batch // ranks.size
    rng = np.random.default_rng([plan.seed + 1, ranks.rank])
    held_out = log.batch(np.random.default_rng([plan.seed + 2, ranks.rank]), plan.held_out // ranks.size)
    clicked = ranks.gathered(held_out.clicked.numpy())
    best = area_under_curve(ranks.gathered(held_out.odds), clicked)
    made = ClickModel(plan.learning_rate, "meta" if ranks.size > 1 else None)
    model = ranks.spread(made, size, console)
    optimizer = rl.optim.Adam(made.dense.parameters(), lr=2e-3)

    def area_now() -> float:
        with rl.no_grad():
            odds = model(held_out.dense, held_out.ids)
        return area_under_curve(ranks.gathered(odds.numpy()), clicked)

    begin = shown = time.perf_counter()
    area, step, mean = 0.5, 0, 0.0
    while ranks.all_go_on(step < plan.steps and time.perf_counter() - begin < plan.seconds):
        batch = log.batch(rng, size)
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch.dense, batch.ids), batch.clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        mean = loss.item() if step == 1 else 0.95 * mean + 0.05 * loss.item()
        if ranks.all_go_on(time.perf_counter() - shown > plan.every):
            area, shown = area_now(), time.perf_counter()
            say(console, step, plan.batch, mean, area, best, shown - begin)
    area = area_now()
    say(console, step, plan.batch, mean, area, best, time.perf_counter() - begin)
    return Outcome(area, best, step, mean)


def say(console: Console, step: int, size: int, loss: float, area: float, best: float, seconds: float) -> None:
    """Print a line of progress."""
    speed = step * size / max(seconds, 1e-9)
    text = f"step {step}  loss {loss:.4f}  AUC {area:.4f} of {best:.4f}  {speed:,.0f} examples/s  {seconds:.0f} s"
    console.print(text, markup=False, highlight=False, soft_wrap=True)
