"""The demo's first 50 losses from weights and batches made by numpy, with Rushlight or with torch under its name.

python tests/demo/reference_losses.py        where torch is installed: rewrites torch_losses.json
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
TABLE = HERE / "torch_losses.json"
DEMO = HERE.parent.parent / "src" / "rushlight" / "demo"

STEPS = 50
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 256, 128, 4
LEARNING_RATE, WEIGHT_DECAY, WARM_UP = 2e-3, 0.1, 100


def weights(model: Any) -> dict[str, np.ndarray]:
    """Weights by name: matrices small, norms near one, biases near zero."""
    generator = np.random.default_rng(20260)
    found = {}
    for name, parameter in model.named_parameters():
        noise = generator.normal(size=tuple(parameter.shape)) * 0.02
        found[name] = (noise + ("norm" in name and name.endswith("weight"))).astype(np.float32)
    return found


def batch(step: int) -> np.ndarray:
    """Text of a kind: words of a small vocabulary in random order, so that there is something to learn."""
    words = [bytes(np.random.default_rng(number).integers(97, 123, size=2 + number % 6)) + b" " for number in range(64)]
    generator = np.random.default_rng((7, step))
    rows = []
    for _ in range(BATCH):
        text = b"".join([words[index] for index in generator.integers(0, 64, size=CONTEXT)])
        rows.append(np.frombuffer(text, np.uint8)[: CONTEXT + 1])
    return np.stack(rows).astype(np.int64)


def losses(framework: Any, model_module: Any, training: Any, steps: int = STEPS, compiled: bool = True) -> list[float]:
    """The losses of some steps of the demo's training step."""
    model = model_module.GPT(LAYERS, HEADS, WIDTH, CONTEXT)
    model.load_state_dict({name: framework.from_numpy(array) for name, array in weights(model).items()})
    optimizer = training.make_optimizer(model, LEARNING_RATE, WEIGHT_DECAY)
    step = training.make_step(model, optimizer)
    if compiled:
        step = framework.compile(step)
    found = []
    for number in range(steps):
        training.set_rate(optimizer, LEARNING_RATE * (number + 1) / WARM_UP)
        loss, _ = step(framework.from_numpy(batch(number)))
        found.append(loss.item())
    return found


def torch_losses(torch: Any, steps: int = STEPS) -> list[float]:
    """The same with torch, which reads the demo's own text under the name `rushlight`."""
    modules: dict[str, ModuleType] = {}
    saved = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "rushlight"}
    sys.modules["rushlight"] = torch
    try:
        for name in ("model", "training"):
            spec = importlib.util.spec_from_file_location(f"demo_with_torch_{name}", DEMO / f"{name}.py")
            assert spec is not None and spec.loader is not None
            modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(modules[name])
    finally:
        del sys.modules["rushlight"]
        sys.modules.update(saved)
    return losses(torch, modules["model"], modules["training"], steps, compiled=False)


if __name__ == "__main__":
    peer = importlib.import_module("torch")
    peer.set_num_threads(1)
    table = {"torch": peer.__version__, "losses": torch_losses(peer)}
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
