"""`torch.jit`: what is given comes back as it is, and the helpers of TorchScript do what they do outside of it."""

from types import ModuleType
from typing import Any

import pytest

import rushlight as rl


def test_modules_pass_through_torchscript(torch: ModuleType):
    module = rl.nn.Linear(2, 2)
    for passed in (
        torch.jit.freeze(module),
        torch.jit.optimize_for_inference(module),
        torch.jit.trace_module(module, {}),
    ):
        assert passed is module
    assert torch.jit.wait(torch.jit.fork(lambda x, scale: x * scale, 3, scale=2)) == 6
    before = torch.jit.set_fusion_strategy([("STATIC", 1)])
    assert torch.jit.set_fusion_strategy(before) == [("STATIC", 1)]
    torch.jit.enable_onednn_fusion(True)
    with torch.jit.optimized_execution(False), torch.jit.strict_fusion():
        assert torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(False)
    assert issubclass(torch.jit.TracerWarning, Warning)
    with pytest.raises(rl.NotSupportedError):
        torch.jit.CompilationUnit("def f(x): return x")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1, 2], list[int], True),
        ([1, "a"], list[int], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ({"a": 1.0}, dict[str, float], True),
        ({"a": 1}, dict[str, float], False),
        (None, int | None, True),
        ([None, [2]], list[list[int] | None], True),
        (3, (str, list[int]), False),
        ("a", str, True),
    ],
)
def test_torchscripts_isinstance_looks_into_containers(torch: ModuleType, value: object, kind: Any, expected: bool):
    assert torch.jit.isinstance(value, kind) is expected
