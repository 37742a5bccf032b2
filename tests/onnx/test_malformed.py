"""Mutated files give a registered error, or a model that runs or says why not."""

import random
import sys
from pathlib import Path

import pytest

import rushlight as rl

pytest.importorskip("onnx", reason="the extra onnx is not installed")
sys.path.insert(0, str(Path(__file__).parent))
import models


def mutated(data: bytes, draw: random.Random) -> bytes:
    if draw.randrange(3) == 0:
        return data[: draw.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        # Structure is at both ends, elements of tensors between them.
        places = (range(200), range(len(data) - 120, len(data)), range(len(data)))
        changed[draw.choice(draw.choice(places))] = draw.randrange(256)
    return bytes(changed)


def test_a_thousand_mutated_files_give_registered_errors(tmp_path: Path):
    data, draw, path = models.mlp().SerializeToString(), random.Random(7), tmp_path / "model.onnx"
    codes: set[str] = set()
    for _ in range(1000):
        path.write_bytes(mutated(data, draw))
        try:
            rl.onnx.load(path)(rl.ones(2, 8))
        except rl.RushlightError as error:
            codes.add(error.code)
    assert {"O001", "P002"} <= codes
