"""The public namespace: what is there, what is missing and how that is said, and that the lists are fresh."""

import importlib
import json
import pickle
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.support.peer_names import absent_name, peer_names
from tools import generate_public

MODULES = (
    "nn",
    "nn.functional",
    "nn.init",
    "nn.utils",
    "optim",
    "optim.lr_scheduler",
    "utils.data",
    "autograd",
    "serialization",
    "shapes",
    "testing",
)


def test_the_lists_of_names_are_fresh():
    for path, text in generate_public.outputs().items():
        assert (generate_public.ROOT / path).read_text(encoding="utf-8") == text, "run `make generate`"


@pytest.mark.parametrize("name", ["", *MODULES])
def test_every_listed_name_exists_and_is_listed(name):
    module = importlib.import_module(f"rushlight.{name}".rstrip("."))
    missing = [each for each in module.__all__ if not hasattr(module, each)]
    assert not missing
    assert set(module.__all__) <= set(dir(module))
    assert len(module.__all__) == len(set(module.__all__))


def test_every_public_function_is_documented():
    for name in ("", *MODULES):
        module = importlib.import_module(f"rushlight.{name}".rstrip("."))
        for each in module.__all__:
            value = getattr(module, each)
            if callable(value):
                assert value.__doc__, f"{name}.{each}"


def test_dtypes_have_torch_names():
    assert rl.float is rl.float32 and rl.long is rl.int64 and rl.half is rl.float16 and rl.double is rl.float64
    assert isinstance(rl.bool, rl.dtype) and rl.bool is rl.ones(1, dtype=rl.bool).dtype
    assert rl.get_default_dtype() is rl.float32
    rl.set_default_dtype(rl.float64)
    try:
        assert rl.zeros(1).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)
    assert rl.device("cpu") == rl.ones(1).device and isinstance(rl.ones(1).shape, rl.Size)
    assert rl.finfo(rl.bfloat16).eps == 2**-7 and rl.finfo().bits == 32 and rl.iinfo(rl.int8).max == 127
    assert rl.promote_types(rl.int32, rl.float16) is rl.float16
    assert rl.nan != rl.nan and rl.inf > 1e308 and rl.newaxis is None


def test_questions_about_tensors():
    x = rl.tensor([1.0, 2.0])
    assert rl.is_tensor(x) and not rl.is_tensor(1.0)
    assert rl.is_floating_point(x) and not rl.is_complex(x) and rl.numel(x) == 2
    assert rl.allclose(x, x + 1e-9) and not rl.allclose(x, x + 1)
    assert rl.equal(x, x.clone()) and not rl.equal(x, rl.ones(3)) and not rl.equal(x, x + 1)


def test_threads_can_be_set():
    before = rl.get_num_threads()
    rl.set_num_threads(1)
    assert rl.get_num_threads() == 1
    rl.set_num_threads(before)


@pytest.mark.parametrize(
    ("module", "name", "code", "hint"),
    [
        ("rushlight", "monitor", "N001", None),
        ("rushlight", "zeroes", "N002", "zeros"),
        ("rushlight.nn", "quantizable", "N001", None),
        ("rushlight.nn", "Conv2D", "N002", "Conv2d"),
        ("rushlight.nn.functional", "scaled_mm", "N001", None),
        ("rushlight.optim.lr_scheduler", "StepLr", "N002", "StepLR"),
        ("rushlight.utils.data", "DataLoaders", "N002", "DataLoader"),
        ("rushlight.autograd", "Functional", "N002", "functional"),
        ("rushlight.testing", "assert_closed", "N002", "assert_close"),
    ],
)
def test_a_missing_name_is_a_registered_error(module, name, code, hint):
    found = importlib.import_module(module)
    with pytest.raises(AttributeError) as caught:
        getattr(found, name)
    error = caught.value
    assert isinstance(error, rl.MissingNameError) and error.code == code
    assert f"did you mean {hint}?" in str(error) if hint else "did you mean" not in str(error)
    assert not hasattr(found, name)
    with pytest.raises(ImportError):
        exec(f"from {module} import {name}")


def test_names_of_other_devices_modules_are_known():
    for name, code in (("nccl", "N001"), ("is_availble", "N002")):
        with pytest.raises(rl.MissingNameError) as caught:
            getattr(rl.cuda, name)
        assert caught.value.code == code


def test_protocols_are_answered_quickly():
    assert type(absent_name("rushlight", "__wrapped__", ())) is AttributeError
    assert not hasattr(rl, "__path_of_nothing__")


def test_the_table_of_torch_names_knows_the_usual_ones():
    assert {"matmul", "fft", "compile", "Tensor"} <= peer_names("rushlight")
    assert {"Linear", "LSTM"} <= peer_names("rushlight.nn") and not peer_names("rushlight.nothing")


def test_error_classes_are_public_under_their_own_names():
    with pytest.raises(rl.ShapeError) as caught:
        rl.ones(2, 3) @ rl.ones(2, 3)
    assert type(caught.value).__module__ == "rushlight" and isinstance(caught.value, RuntimeError)
    assert pickle.loads(pickle.dumps(caught.value)).code == caught.value.code


def test_import_leaves_the_frontends_and_llvm_for_later():
    program = "import rushlight, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    for name in ("llvmlite", "rushlight.nn", "rushlight.optim", "rushlight.capture", "safetensors", "numpy.random"):
        assert name not in loaded, name


def test_submodules_are_reached_by_attribute():
    program = (
        "import rushlight as torch; print(torch.nn.Linear, torch.optim.lr_scheduler.StepLR, torch.utils.data.Subset)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in ("Linear", "StepLR", "Subset"))
