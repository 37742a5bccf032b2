"""Module: registration, walking, modes, conversion, hooks."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import Parameter


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))
        self.scale = Parameter(rl.ones(1))
        self.register_buffer("count", rl.zeros(1))
        self.register_buffer("cache", rl.zeros(2), persistent=False)
        self.size = 7

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


def test_assignment_registers_by_kind():
    block = Block()
    assert [name for name, _ in block.named_parameters()] == ["scale", "first.weight", "first.bias", "second.1.weight"]
    assert [name for name, _ in block.named_buffers()] == ["count", "cache"]
    assert [name for name, _ in block.named_children()] == ["first", "second"]
    assert [name for name, _ in block.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert "size" in vars(block) and "scale" not in vars(block)
    assert {"first", "scale", "count", "forward"} <= set(dir(block))


def test_reassignment_moves_between_kinds():
    block = Block()
    block.size = nn.Linear(1, 1)
    assert "size" in block._modules and "size" not in vars(block)
    block.first = Parameter(rl.zeros(1))
    assert "first" in block._parameters and "first" not in block._modules
    block.scale = None
    assert block._parameters["scale"] is None
    block.count = rl.ones(1)
    assert block._buffers["count"].item() == 1
    del block.second
    assert not hasattr(block, "second")


def test_wrong_assignments_are_refused():
    block = Block()
    with pytest.raises(TypeError, match="cannot assign Tensor as parameter scale"):
        block.scale = rl.ones(1)
    with pytest.raises(TypeError, match="as child module first"):
        block.first = 3
    with pytest.raises(TypeError, match="as buffer count"):
        block.count = 3
    with pytest.raises(KeyError, match="already has an attribute size"):
        block.register_parameter("size", Parameter(rl.ones(1)))
    with pytest.raises(KeyError, match="empty or contain a dot"):
        block.add_module("a.b", nn.ReLU())
    with pytest.raises(ValueError, match="was computed"):
        block.register_parameter("other", Parameter(rl.ones(1)) * 2 if False else _computed())
    with pytest.raises(AttributeError, match="did you mean first"):
        block.frist  # noqa: B018


def _computed():
    parameter = Parameter(rl.ones(1))
    computed = parameter * 2
    computed.__class__ = Parameter
    return computed


def test_assignment_before_init_is_an_error():
    class Late(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match="before Module"):
        Late()


def test_forward_must_be_written():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_shared_parameters_and_modules_come_once():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, shared)
    assert len(list(model.parameters())) == 2
    assert len(list(model.modules())) == 2
    assert len(list(model.named_parameters(remove_duplicate=False))) == 4


def test_modes_and_apply():
    block = Block()
    seen = []
    assert block.apply(lambda module: seen.append(type(module).__name__)) is block
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Block"]
    block.eval()
    assert not any(module.training for module in block.modules())
    assert all(module.training for module in block.train().modules())
    with pytest.raises(ValueError, match="must be a bool"):
        block.train("yes")


def test_get_by_dotted_name():
    block = Block()
    assert block.get_submodule("second.1") is block.second[1]
    assert block.get_submodule("") is block
    assert block.get_parameter("second.1.weight") is block.second[1].weight
    assert block.get_buffer("count") is block.count
    with pytest.raises(AttributeError, match="no attribute third"):
        block.get_submodule("third.0")
    with pytest.raises(AttributeError, match="not a Parameter"):
        block.get_parameter("count")
    with pytest.raises(AttributeError, match="is not a buffer"):
        block.get_buffer("scale")


def test_gradients_are_set_and_cleared():
    block = Block()
    block(rl.ones(4, 2)).sum().backward()
    assert all(param.grad is not None for param in block.parameters())
    block.zero_grad(set_to_none=False)
    assert all(not param.grad.numpy().any() for param in block.parameters())
    block.zero_grad()
    assert all(param.grad is None for param in block.parameters())
    block.requires_grad_(False)
    assert not block(rl.ones(4, 2)).requires_grad


def test_conversion_keeps_parameters_the_same_objects():
    block = Block()
    block.register_buffer("steps", rl.tensor(3))
    before = list(block.parameters())
    block.to(rl.float64)
    assert all(a is b for a, b in zip(before, block.parameters(), strict=True))
    assert {param.dtype for param in block.parameters()} == {rl.float64}
    assert block.count.dtype is rl.float64 and block.steps.dtype is rl.int64
    assert block.bfloat16().first.weight.dtype is rl.bfloat16
    assert block.float().first.weight.dtype is rl.float32
    assert block.to(rl.zeros(1, dtype=rl.float64)).scale.dtype is rl.float64
    with pytest.raises(TypeError, match="floating-point dtypes only"):
        block.to(rl.int32)
    with pytest.raises(TypeError, match="no argument dtyp"):
        block.to(dtyp=rl.float32)


def test_meta_modules_have_shapes_without_values():
    layer = nn.Linear(1000, 1000, device="meta")
    assert layer.weight.is_meta and layer(rl.empty(2, 1000, device="meta")).shape == (2, 1000)
    real = layer.to_empty(device="cpu")
    assert not real.weight.is_meta and real.weight.shape == (1000, 1000)


def test_copies_and_pickles_are_independent():
    block = Block()
    block.tied = block.first
    for twin in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert twin.tied is twin.first
        with rl.no_grad():
            twin.scale.fill_(5)
        assert block.scale.item() == 1 and twin.scale.item() == 5
        np.testing.assert_array_equal(twin.first.weight.detach().numpy(), block.first.weight.detach().numpy())


def test_forward_hooks_change_arguments_and_results():
    layer = nn.Identity()
    calls = []
    pre = layer.register_forward_pre_hook(lambda module, args: calls.append("pre") or (args[0] + 1,))
    post = layer.register_forward_hook(lambda module, args, output: calls.append("post") or output * 10)
    layer.register_forward_hook(lambda module, args, output: calls.append("first"), prepend=True)
    assert layer(rl.tensor(2.0)).item() == 30
    assert calls == ["pre", "first", "post"]
    pre.remove()
    post.remove()
    assert layer(rl.tensor(2.0)).item() == 2


def test_forward_hooks_see_keyword_arguments():
    class Scaled(nn.Module):
        def forward(self, x, *, by=1):
            return x * by

    layer = Scaled()
    layer.register_forward_pre_hook(lambda module, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    seen = []
    layer.register_forward_hook(lambda module, args, kwargs, output: seen.append(kwargs), with_kwargs=True)
    assert layer(rl.tensor(2.0), by=2).item() == 6
    assert seen == [{"by": 3}]
    layer.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or"):
        layer(rl.tensor(2.0), by=2)


def test_forward_hooks_that_are_always_called_see_failures():
    class Broken(nn.Module):
        def forward(self):
            raise ZeroDivisionError

    layer = Broken()
    seen = []
    layer.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    with pytest.raises(ZeroDivisionError):
        layer()
    assert seen == [None]


def test_backward_hooks_see_and_change_gradients():
    layer = nn.Linear(2, 1, bias=False)
    with rl.no_grad():
        layer.weight.copy_(rl.tensor([[2.0, 3.0]]))
    order = []

    def after(module, grad_input, grad_output):
        order.append(("after", grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    layer.register_full_backward_hook(after)
    layer.register_full_backward_pre_hook(lambda module, grad: order.append(("before", grad[0].tolist())))
    x = rl.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert order == [("before", [[1.0]]), ("after", [[2.0, 3.0]], [[1.0]])]
    assert x.grad.tolist() == [[20.0, 30.0]]


def test_backward_hook_without_inputs_that_need_gradients():
    layer = nn.Linear(2, 1)
    seen = []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    layer(rl.ones(1, 2)).sum().backward()
    assert seen[0][0] == (None,) and seen[0][1][0].tolist() == [[1.0]]
    with rl.no_grad():
        layer(rl.ones(1, 2))
    assert len(seen) == 1


def test_vectors_of_parameters_share_their_memory():
    params = [Parameter(rl.ones(2, 2)), Parameter(rl.zeros(3))]
    vector = nn.utils.parameters_to_vector(params)
    assert vector.tolist() == [1, 1, 1, 1, 0, 0, 0]
    nn.utils.vector_to_parameters(rl.arange(7, dtype=rl.float32), params)
    assert params[0].tolist() == [[0, 1], [2, 3]] and params[1].tolist() == [4, 5, 6]
    with pytest.raises(RuntimeError, match="too short"):
        nn.utils.vector_to_parameters(rl.zeros(3), params)


def test_clipping_names_gradients_that_are_not_finite():
    param = Parameter(rl.ones(1))
    param.grad = rl.tensor([float("inf")])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(param, 1.0, error_if_nonfinite=True)
    assert nn.utils.clip_grad_norm_([Parameter(rl.ones(1))], 1.0).item() == 0


def test_clipping_asks_plain_gradients_for_no_name_that_they_lack(monkeypatch):
    """Each would cost the search for a name that is near."""
    params = [Parameter(rl.ones(2)) for _ in range(3)]
    for param in params:
        param.grad = rl.ones(2)
    asked = []
    monkeypatch.setattr(rl.Tensor, "__getattr__", lambda self, name: asked.append(name))
    nn.utils.clip_grad_norm_(params, 1.0)
    assert asked == []


def test_register_module_is_add_module():
    block = nn.Module()
    block.register_module("inner", nn.Linear(1, 1))
    assert [name for name, _ in block.named_children()] == ["inner"]
    with pytest.raises(rl.RushlightError, match="not a Module"):
        block.register_module("other", rl.ones(1))


def test_recurrent_layers_list_their_weights_by_layer_and_direction():
    layer = nn.LSTM(2, 3, num_layers=2, bidirectional=True)
    layer.flatten_parameters()
    names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    suffixes = ["_l0", "_l0_reverse", "_l1", "_l1_reverse"]
    found = [[id(weight) for weight in weights] for weights in layer.all_weights]
    assert found == [[id(getattr(layer, name + suffix)) for name in names] for suffix in suffixes]


def test_a_buffer_registers_itself():
    values = rl.arange(3)
    module = nn.Module()
    module.kept = nn.Buffer(values)
    module.hidden = nn.Buffer(rl.ones(2), persistent=False)
    assert isinstance(module.kept, nn.Buffer) and not isinstance(values, nn.Buffer)
    assert type(module.kept) is rl.Tensor and module.kept.data_ptr() == values.data_ptr()
    assert [name for name, _ in module.named_buffers()] == ["kept", "hidden"]
    assert list(module.state_dict()) == ["kept"]
    module.hidden = nn.Buffer(rl.zeros(2))
    assert list(module.state_dict()) == ["kept", "hidden"]
    with pytest.raises(TypeError):
        nn.Buffer([1.0])


def test_modules_are_laid_out_anew():
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(6, 2))
    x, weight = rl.randn(2, 3, 3, 3), model[0].weight
    before = model(x)
    assert model.to(memory_format=rl.channels_last) is model and model[0].weight is weight
    assert weight.stride() == (27, 1, 9, 3) and model[3].weight.is_contiguous()
    rl.testing.assert_close(model(x.contiguous(memory_format=rl.channels_last)), before)
    model.to(rl.float64, memory_format=rl.contiguous_format)
    assert weight.is_contiguous() and weight.dtype is rl.float64
