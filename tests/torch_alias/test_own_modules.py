"""Modules that exist under the alias alone: what they answer, pass through and refuse."""

import importlib
from types import ModuleType

import pytest

import rushlight as rl
from rushlight.support import events
from rushlight.torch import passing

ANSWERS = [
    ("backends.cudnn", "is_available", False),
    ("backends.mps", "is_available", False),
    ("cuda", "is_available", False),
    ("cuda", "is_bf16_supported", False),
    ("cuda", "memory_allocated", 0),
    ("accelerator", "device_count", 0),
    ("distributed", "is_available", False),
    ("jit", "is_scripting", False),
    ("compiler", "is_compiling", False),
    ("_dynamo", "is_compiling", False),
]


@pytest.mark.parametrize(("module", "name", "answer"), ANSWERS, ids=[f"{row[0]}.{row[1]}" for row in ANSWERS])
def test_questions_are_answered(torch: ModuleType, module: str, name: str, answer: object):
    assert getattr(importlib.import_module(f"torch.{module}"), name)() == answer


def test_flags_can_be_set_and_read(torch: ModuleType):
    cudnn = importlib.import_module("torch.backends.cudnn")
    cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cudnn.benchmark and torch.backends.cuda.matmul.allow_tf32
    with cudnn.flags(enabled=False):
        assert torch.version.cuda is None


@pytest.mark.parametrize("name", ["jit.script", "jit.ignore", "compiler.disable", "_dynamo.disable"])
def test_decorators_pass_functions_through_with_one_event(torch: ModuleType, name: str):
    passing.say_passed.cache_clear()
    before = events.count("pass_through")
    module, _, attribute = name.rpartition(".")
    decorator = getattr(importlib.import_module(f"torch.{module}"), attribute)

    def function() -> None: ...

    assert decorator(function) is function and decorator(function) is function
    assert events.count("pass_through") == before + 1


def test_decorators_take_options(torch: ModuleType):
    def function() -> None: ...

    assert torch.jit.ignore(drop=True)(function) is function
    assert torch.compiler.disable()(function) is function


def test_checkpoint_gives_the_right_gradient_and_says_that_it_keeps_values(torch: ModuleType):
    passing.say_passed.cache_clear()
    before = events.count("pass_through")
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint
    x = rl.ones(3, requires_grad=True)
    checkpoint(lambda x, scale: (x * scale).square().sum(), x, scale=2.0, use_reentrant=False).backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]
    assert events.count("pass_through") == before + 1


@pytest.mark.parametrize("call", ["hub.load", "jit.load", "fx.symbolic_trace", "distributed.init_process_group"])
def test_what_cannot_be_done_is_an_error(torch: ModuleType, call: str):
    module, _, name = call.rpartition(".")
    with pytest.raises(rl.NotSupportedError, match=f"torch.{call}"):
        getattr(importlib.import_module(f"torch.{module}"), name)("model")


def test_trees_and_devices(torch: ModuleType):
    pytree = importlib.import_module("torch.utils._pytree")
    leaves, structure = pytree.tree_flatten({"a": [1, (2, 3)]})
    assert pytree.tree_unflatten([2 * leaf for leaf in leaves], structure) == {"a": [2, (4, 6)]}
    assert pytree.tree_map_only(int, lambda n: -n, [1, "x"]) == [-1, "x"]
    assert torch.get_default_device() == rl.device("cpu")
    assert torch.typename(rl.ones(1)) == "torch.FloatTensor"
    with pytest.raises(rl.NotSupportedError):
        torch.set_default_device("cuda")
    assert list(torch.nn.DataParallel(rl.nn.Linear(1, 1)).state_dict()) == ["module.weight", "module.bias"]
