"""What `import torch` gives under the alias, in this process, which is left as it was."""

import importlib
import importlib.metadata
import importlib.util
import sys
from types import ModuleType

import pytest

import rushlight as rl
import rushlight.torch as alias
from rushlight.torch.elsewhere import ELSEWHERE

SAME = [
    ("torch", "Tensor", rl.Tensor),
    ("torch", "float32", rl.float32),
    ("torch", "manual_seed", rl.manual_seed),
    ("torch.nn", "Linear", rl.nn.Linear),
    ("torch.nn.functional", "relu", rl.nn.functional.relu),
    ("torch.nn.modules.conv", "Conv2d", rl.nn.Conv2d),
    ("torch.nn.parameter", "Parameter", rl.nn.Parameter),
    ("torch.nn.utils.clip_grad", "clip_grad_norm_", rl.nn.utils.clip_grad_norm_),
    ("torch.optim.adam", "Adam", rl.optim.Adam),
    ("torch.optim.lr_scheduler", "StepLR", rl.optim.lr_scheduler.StepLR),
    ("torch.utils.data.dataset", "Dataset", rl.utils.data.Dataset),
    ("torch.autograd.function", "Function", rl.autograd.Function),
    ("torch.distributions.kl", "register_kl", rl.distributions.register_kl),
    ("torch.distributions.utils", "broadcast_all", rl.distributions.parameters.broadcast_all),
    ("torch.distributions.constraints", "positive", rl.distributions.constraints.positive),
    ("torch.distributions.studentT", "StudentT", rl.distributions.StudentT),
    ("torch.distributions.lkj_cholesky", "LKJCholesky", rl.distributions.LKJCholesky),
]


@pytest.mark.parametrize(("module", "name", "ours"), SAME, ids=[row[0] for row in SAME])
def test_names_are_the_same_objects(torch: ModuleType, module: str, name: str, ours: object):
    assert getattr(importlib.import_module(module), name) is ours


def test_each_distribution_has_a_module(torch: ModuleType):
    names = [name for name, item in vars(rl.distributions).items() if _is_distribution(item)]
    modules = [module for module in ELSEWHERE if module.startswith("distributions.")]
    found = {name for module in modules for name in names if hasattr(importlib.import_module(f"torch.{module}"), name)}
    assert found == set(names) and len(names) > 40
    shape = torch.distributions.utils._standard_normal((2, 3), torch.float64, torch.device("cpu"))
    assert shape.shape == (2, 3) and shape.dtype is torch.float64


def _is_distribution(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, rl.distributions.Distribution)


def test_submodules_are_reached_by_attribute_and_are_the_alias(torch: ModuleType):
    assert torch.nn.functional.__name__ == "torch.nn.functional"
    assert torch.utils.data is sys.modules["torch.utils.data"]
    assert "Linear" in dir(torch.nn) and "Linear" in torch.nn.__all__
    assert torch.__config__ is sys.modules["torch.__config__"] and "torch" in torch.__config__.show()
    assert not hasattr(torch, "__no_such_name__")


def test_a_function_keeps_its_name_when_a_submodule_of_that_name_is_imported(torch: ModuleType):
    importlib.import_module("torch.autograd.gradcheck")
    assert torch.autograd.gradcheck is rl.autograd.gradcheck
    assert sys.modules["torch.autograd.gradcheck"].gradgradcheck is rl.autograd.gradgradcheck


def test_versions_answer_as_pytorch(torch: ModuleType):
    assert torch.__version__ == alias.VERSION == "2.13.0"
    assert importlib.metadata.version("torch") == "2.13.0"
    assert importlib.metadata.metadata("torch")["Name"] == "torch"
    assert importlib.metadata.packages_distributions()["torch"] == ["torch"]
    assert rl.__version__ != "2.13.0"


@pytest.mark.parametrize("name", ["torch.ir", "torch.eager", "torch.build", "torch.nn.linear", "torch.nothing.at_all"])
def test_internal_modules_are_no_modules_of_torch(torch: ModuleType, name: str):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    assert not hasattr(torch, "ir")


def test_a_missing_name_raises_as_that_of_any_module(torch: ModuleType):
    with pytest.raises(AttributeError, match="choose_qparams_optimized"):
        _ = torch.choose_qparams_optimized
    with pytest.raises(rl.MissingNameError) as problem:
        _ = torch.nn.nothing
    assert problem.value.code == "N002"
    assert importlib.util.find_spec("torch.nothing") is None


def test_the_alias_is_not_installed_over_another_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(rl.ArgumentError) as problem:
        alias.install()
    assert problem.value.code == "A004"


def test_uninstalled_it_answers_nothing():
    assert not any(type(finder).__name__ == "AliasFinder" for finder in sys.meta_path)
