"""The small models as exported programs: the same text after saving, loading and exporting again, and eager's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.bench.models import MODELS
from tensors import same

# An example, and other sizes that the program must serve.
SIZES = {
    "gpt": ((2, 12), (1, 1), (3, 17)),
    "bert": ((2, 12), (3, 17)),
    "t5": ((2, 12, 7), (3, 9, 17)),
    "resnet": ((2, 16, 12), (3, 11, 21)),
    "mixer": ((2, 40, 36), (3, 17, 50)),
    "unet": ((2, 17, 22), (1, 12, 9)),
    "dlrm": ((4, 7, 3, 0), (6, 9, 5, 11)),
    "lstm": ((2, 6), (5, 17)),
}


@pytest.mark.generated
@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_survives_saving_loading_and_exporting_again(name: str, training: bool, tmp_path: Path):
    rl.manual_seed(0)
    kind = MODELS[name]
    model = kind.make().train(training)
    example = kind.inputs(*SIZES[name][0])
    program = rl.export.export(model, example)
    rl.export.save(program, tmp_path / "model.safetensors")
    loaded = rl.export.load(tmp_path / "model.safetensors")
    assert str(loaded) == str(program)
    again = rl.export.export(loaded.module(), example, dynamic_shapes=loaded.spec)
    assert str(again) == str(program)
    module = loaded.module()
    for sizes in SIZES[name]:
        inputs = kind.inputs(*sizes)
        rl.manual_seed(1)
        expected: Any = model(*inputs)
        rl.manual_seed(1)
        assert same(module(*inputs), expected)
        assert same(module.state_dict(), model.state_dict())
