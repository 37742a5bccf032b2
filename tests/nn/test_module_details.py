"""Details of modules that PyTorch's own tests ask for."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.support.errors import DeprecationNotice, forget_warnings


def test_the_error_of_a_property_is_its_own():
    class Model(nn.Module):
        @property
        def size(self):
            return self.length

        @property
        def fine(self):
            return 3

    assert Model().fine == 3
    with pytest.raises(AttributeError, match="no attribute length"):
        _ = Model().size
    with pytest.raises(AttributeError, match="no attribute sizes"):
        _ = Model().sizes


def test_a_sequential_is_repeated_with_the_same_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for twice in (model * 2, 2 * model):
        assert [one is other for one, other in zip(twice, [*model, *model], strict=True)] == [True] * 4
        assert list(twice.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    first = model[0]
    model *= 3
    assert len(model) == 6
    assert model[4] is first
    with pytest.raises(ValueError, match="at least once"):
        model * 0


def test_a_sequential_has_no_place_beyond_its_end():
    model = nn.Sequential(nn.ReLU())
    for place in (2, -2):
        with pytest.raises(IndexError, match="no place"):
            model.insert(place, nn.ReLU())
    assert len(model.insert(1, nn.Tanh()).insert(-2, nn.Tanh())) == 3


def test_the_old_backward_hook_warns_and_sees_gradients():
    forget_warnings()
    layer, seen = nn.Linear(2, 3), []
    with pytest.warns(DeprecationNotice, match="register_backward_hook is deprecated"):
        handle = layer.register_backward_hook(
            lambda module, before, after: seen.append((before[0].shape, after[0].shape))
        )
    x = rl.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    handle.remove()
    layer(x).sum().backward()
    assert seen == [((1, 2), (1, 3))]


def test_backward_hooks_do_not_run_for_gradients_of_gradients():
    loss, seen = nn.MSELoss(), []
    loss.register_full_backward_hook(lambda *_: seen.append(1))
    x = rl.rand(1, requires_grad=True)
    value = loss(x, rl.rand(1))
    (gradient,) = rl.autograd.grad(value, x, create_graph=True)
    assert seen == [1]
    (second,) = rl.autograd.grad(gradient, x)
    assert seen == [1]
    assert second.item() == 2
