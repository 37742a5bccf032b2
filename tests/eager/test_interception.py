"""Dispatch modes and tensor subclasses, with the public protocol only."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.eager import Tensor
from rushlight.eager.creation import ones, tensor
from rushlight.eager.dispatch import STATE
from rushlight.eager.functions import add, cat
from rushlight.eager.interception import TorchDispatchMode
from rushlight.support.errors import RushlightError


class Logging(TorchDispatchMode):
    """Writes down the names of operators."""

    def __init__(self, name="", log=None):
        self.name = name
        self.log = [] if log is None else log

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.log.append(self.name + func.__name__)
        return func(*args, **(kwargs or {}))


class TwoTensor(Tensor):
    """A pair of tensors of one shape, on which every operator acts twice."""

    @staticmethod
    def __new__(cls, a, b, requires_grad=False):
        self = Tensor._make_wrapper_subclass(
            cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device, requires_grad=requires_grad
        )
        self.a, self.b = a, b
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def pick(name, value):
            if isinstance(value, TwoTensor):
                return getattr(value, name)
            return type(value)(pick(name, item) for item in value) if isinstance(value, (tuple, list)) else value

        def run(name):
            named = {key: pick(name, value) for key, value in (kwargs or {}).items()}
            return func(*[pick(name, value) for value in args], **named)

        first, second = run("a"), run("b")
        if isinstance(first, tuple):
            return tuple(cls(x, y) for x, y in zip(first, second, strict=True))
        if func.__name__.endswith("_"):
            return args[0]
        return cls(first, second)


def test_a_mode_sees_operators_below_autograd():
    x = tensor([1.0, 2.0], requires_grad=True)
    with Logging() as mode:
        (x * x + 1).sum().backward()
    assert mode.log[:3] == ["mul", "add", "sum"]
    assert "expand" in mode.log
    assert x.grad.tolist() == [2.0, 4.0]
    assert STATE.modes == ()
    assert STATE.included == 0


def test_a_mode_sees_writes_and_creation():
    with Logging() as mode:
        target = ones(2)
        target.add_(1)
        add(target, 1.0, out=target)
    assert mode.log == ["ones", "add_", "add_out"]
    assert target.tolist() == [3.0, 3.0]


def test_modes_stack_innermost_first():
    log = []
    x = tensor([1.0])
    with Logging("outer ", log), Logging("inner ", log):
        y = x + 1
    assert log == ["inner add", "outer add"]
    assert y.tolist() == [2.0]


def test_a_mode_may_decline_and_may_raise():
    class Declining(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    class Raising(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ZeroDivisionError

    x = tensor([1.0])
    with Declining():
        assert (x + 1).tolist() == [2.0]
    with pytest.raises(ZeroDivisionError), Raising():
        _ = x + 1
    assert (STATE.modes, STATE.included, STATE.excluded, STATE.running) == ((), 0, 0, ())


def test_a_subclass_acts_on_its_parts():
    x = TwoTensor(tensor([1.0, 2.0]), tensor([10.0, 20.0]))
    y = (x * 2 + tensor([1.0, 1.0])).exp().log()
    assert isinstance(y, TwoTensor)
    np.testing.assert_allclose(y.a.numpy(), [3, 5], rtol=1e-6)
    np.testing.assert_allclose(y.b.numpy(), [21, 41], rtol=1e-6)
    joined = cat([x, x])
    assert joined.a.shape == (4,)
    x.mul_(3)
    assert x.b.tolist() == [30.0, 60.0]
    assert x.reshape(2, 1).b.shape == (2, 1)


def test_a_subclass_is_differentiated():
    x = TwoTensor(tensor([1.0, 2.0]), tensor([10.0, 20.0]), requires_grad=True)
    loss = (x * x).sum()
    assert loss.requires_grad
    loss.backward()
    assert isinstance(x.grad, TwoTensor)
    assert x.grad.a.tolist() == [2.0, 4.0]
    assert x.grad.b.tolist() == [20.0, 40.0]


def test_a_mode_sees_a_subclass_before_the_subclass_does():
    x = TwoTensor(tensor([1.0]), tensor([2.0]))
    with Logging() as mode:
        y = x + 1
    assert y.b.tolist() == [3.0]
    assert mode.log == ["add"]  # the parts are added below the mode


def test_a_derived_class_answers_before_its_base():
    order = []

    class Base(TwoTensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    base, derived = Base(tensor([1.0]), tensor([1.0])), Derived(tensor([1.0]), tensor([1.0]))
    with pytest.raises(RushlightError, match="no __torch_dispatch__ answers"):
        _ = base + derived
    assert order == ["Derived", "Base"]


def pair(requires_grad=False):
    a = tensor([[1.0, 2.0], [3.0, 4.0]])
    return TwoTensor(a, a * 10, requires_grad=requires_grad)


def written_whole(x):
    return (x * 1).mul_(3)


def written_through_a_view(x):
    y = x * 1
    y.view(-1).mul_(3)
    return y


def written_through_views_of_views(x):
    y = x * 1
    y.t()[1].view(2, 1).mul_(y[0].reshape(2, 1))
    return y


def written_after_exchanging_dims(x):
    y = x * 1
    y.t_()
    y[0].mul_(3)
    return y


@pytest.mark.row("2.10")
@pytest.mark.parametrize(
    "program",
    [written_whole, written_through_a_view, written_through_views_of_views, written_after_exchanging_dims],
    ids=lambda program: program.__name__,
)
def test_histories_follow_writes_to_views_of_wrappers(program):
    pairs, plain = pair(requires_grad=True), [pair().a.requires_grad_(), pair().b.requires_grad_()]
    (program(pairs).sin() * pair()).sum().backward()
    for x in plain:
        (program(x).sin() * x.detach()).sum().backward()
    assert isinstance(pairs.grad, TwoTensor)
    assert pairs.grad.a.tolist() == plain[0].grad.tolist()
    assert pairs.grad.b.tolist() == plain[1].grad.tolist()


def test_a_write_to_what_is_saved_of_a_wrapper_is_an_error():
    y = pair(requires_grad=True) * 1
    z = (y * y).sum()
    y.view(-1).mul_(3)
    with pytest.raises(RushlightError) as caught:
        z.backward()
    assert caught.value.code == "G003"


def test_dims_of_wrappers_are_exchanged_in_place():
    x = TwoTensor(tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), ones(2, 3))
    assert x.t_() is x
    assert (x.shape, x.stride(), x.a.tolist()) == ((3, 2), (1, 3), [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    assert (x + x).a.shape == (3, 2)


def test_wrappers_are_mapped():
    x, w = pair(), tensor([1.0, 2.0])
    y = rl.func.vmap(lambda row: (row * 2 + w).sum())(x)
    assert y.a.tolist() == [9.0, 17.0] and y.b.tolist() == [63.0, 143.0]


def test_parameters_of_subclasses_keep_their_class():
    module = nn.Module()
    module.weight = nn.Parameter(pair())
    assert type(module.weight) is TwoTensor and isinstance(module.weight, nn.Parameter)
    assert [*module.parameters()] == [module.weight] and module.weight.requires_grad
    assert not isinstance(pair(), nn.Parameter) and not isinstance(pair(), nn.UninitializedParameter)
    again = copy.deepcopy(pair())
    assert type(again) is TwoTensor and again.b.tolist() == pair().b.tolist()
    data = module.weight.data
    assert type(data) is TwoTensor and data.a is module.weight.a


def test_wrappers_have_the_sizes_and_strides_that_they_are_made_with():
    x = Tensor._make_wrapper_subclass(TwoTensor, (2, 3), strides=(1, 2), dtype=rl.float64, requires_grad=True)
    assert (x.shape, x.stride(), x.dtype, x.requires_grad) == ((2, 3), (1, 2), rl.float64, True)
    assert repr(x) == "TwoTensor(..., size=(2, 3), dtype=rushlight.float64, requires_grad=True)"


ALONE = """
import rushlight as rl

class Held(rl.Tensor):
    def __new__(cls, held):
        return rl.Tensor._make_wrapper_subclass(cls, held.shape)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(func(args[0].held, *args[1:]))

print((Held(rl.ones(2)) + 1).held.tolist())
"""


def test_a_subclass_acts_in_a_program_that_imports_nothing_else():
    result = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=120)
    assert result.stdout == "[2.0, 2.0]\n", result.stderr


def test_classes_read_the_one_element_of_their_wrappers():
    asked = []

    class Held(rl.Tensor):
        @staticmethod
        def __new__(cls, held):
            return rl.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype)

        def __init__(self, held):
            self.held = held

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append(func.__name__)
            result = func(*[one.held if isinstance(one, Held) else one for one in args])
            return Held(result) if isinstance(result, rl.Tensor) else result

    wrapper = Held(rl.tensor([2.5]))
    assert (wrapper.item(), float(wrapper), int(wrapper), bool(wrapper > 3)) == (2.5, 2.5, 2, False)
    assert asked == ["_local_scalar_dense"] * 3 + ["gt", "_local_scalar_dense"]
