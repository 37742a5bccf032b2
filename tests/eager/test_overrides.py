"""`__torch_function__`: of subclasses, of objects that are no tensors, and of modes; who is asked, and for what."""

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import overrides
from rushlight.eager.override.foreign import disabled


class Logged(rl.Tensor):
    """A tensor that notes what it is asked for."""

    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.calls.append((func, args, kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


class Kept(rl.Tensor):
    pass


class Derived(Kept):
    pass


class Duck:
    """Something else that answers with the name of what it is asked for."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return (func, args, kwargs or {})


def logged(values=(1.0, 2.0, 3.0)):
    return rl.tensor(list(values)).as_subclass(Logged)


def asked(function):
    """What is asked for while a function runs, and its result."""
    Logged.calls.clear()
    result = function()
    return [func for func, _, _ in Logged.calls], result


X = logged()
PLAIN = rl.ones(3)
METHODS = {
    "__add__": (lambda: X + 1, lambda: PLAIN + X),
    "__rsub__": (lambda: 1 - X,),
    "mul": (lambda: X.mul(2), lambda: PLAIN.mul(X)),
    "add_": (lambda: X.clone().as_subclass(rl.Tensor).add_(X),),
    "sum": (lambda: X.sum(), lambda: X.sum(0, keepdim=True)),
    "__getitem__": (lambda: X[0], lambda: X[1:]),
    "max": (lambda: X.max(0),),
    "view": (lambda: X.view(3, 1),),
    "to": (lambda: X.to(rl.float64),),
    "clone": (lambda: X.clone(),),
    "tolist": (lambda: X.tolist(),),
    "softmax": (lambda: X.softmax(0),),
}
FUNCTIONS = {
    rl.add: lambda: rl.add(PLAIN, X, alpha=2),
    rl.cat: lambda: rl.cat([PLAIN, X]),
    rl.cummax: lambda: rl.cummax(X, 0),
    rl.where: lambda: rl.where(PLAIN > 0, X, 0),
    rl.max: lambda: rl.max(X, 0),
    rl.einsum: lambda: rl.einsum("i,i->", X, PLAIN),
    rl.linalg.norm: lambda: rl.linalg.norm(X),
    F.normalize: lambda: F.normalize(X, dim=0),
    F.mse_loss: lambda: F.mse_loss(X, PLAIN),
    F.interpolate: lambda: F.interpolate(X.as_subclass(Logged).view(1, 1, 3), scale_factor=2.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_ask_once_for_themselves(name):
    for call in METHODS[name]:
        functions, _ = asked(call)
        assert functions[-1] is getattr(rl.Tensor, name), functions


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_functions_ask_once_for_themselves(function):
    functions, result = asked(FUNCTIONS[function])
    assert functions[-1] is function and functions.count(function) == 1
    first = result if isinstance(result, rl.Tensor) else result[0]
    assert type(first) is Logged


def test_arguments_are_those_of_the_call():
    asked(lambda: rl.add(PLAIN, X, alpha=2))
    func, args, kwargs = Logged.calls[-1]
    assert func is rl.add and args[0] is PLAIN and args[1] is X and kwargs == {"alpha": 2}
    asked(lambda: F.normalize(X, 2.0, dim=0))
    assert Logged.calls[-1][1:] == ((X, 2.0), {"dim": 0})


def test_results_keep_the_class_and_gradients():
    x = rl.ones(2, requires_grad=True).as_subclass(Kept)
    y = (x * 2).sin()
    assert type(y) is Kept and type(y[0]) is Kept and type(rl.cat([y, y])) is Kept and type(y.max(0)[1]) is Kept
    assert type(x.as_subclass(Derived) + x) is Derived and type(rl.ones(2) + x) is Kept
    leaf = Kept(rl.ones(2)).requires_grad_()
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0]
    assert type(rl.nn.Parameter(rl.ones(2)) * 2) is rl.Tensor


def test_unrelated_classes_decline_and_are_an_error():
    class Other(rl.Tensor):
        pass

    with pytest.raises(TypeError, match="no implementation found"):
        rl.ones(2).as_subclass(Other) + rl.ones(2).as_subclass(Kept)


def test_a_class_that_disables_overrides_is_plain():
    class Quiet(rl.Tensor):
        __torch_function__ = disabled

    assert type(rl.ones(2).as_subclass(Quiet) + 1) is rl.Tensor
    assert not overrides.has_torch_function((rl.ones(2).as_subclass(Quiet), rl.nn.Parameter(rl.ones(1)), PLAIN, 3))
    assert overrides.has_torch_function((PLAIN, X)) and overrides.has_torch_function_unary(Duck())


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (rl.add, lambda duck: rl.add(duck, 1)),
        (rl.add, lambda duck: rl.add(PLAIN, duck)),
        (rl.sum, lambda duck: rl.sum(duck)),
        (rl.cat, lambda duck: rl.cat([PLAIN, duck])),
        (rl.max, lambda duck: rl.max(duck)),
        (rl.where, lambda duck: rl.where(duck, 1, 2)),
        (F.normalize, lambda duck: F.normalize(duck)),
        (F.mse_loss, lambda duck: F.mse_loss(PLAIN, duck)),
        (rl.Tensor.add, lambda duck: PLAIN.add(duck)),
    ],
)
def test_objects_that_are_no_tensors_answer(function, call):
    duck = Duck()
    func, args, kwargs = call(duck)
    assert func is function
    assert any(value is duck for value in [*args, *kwargs.values(), *(args[0] if isinstance(args[0], list) else ())])


def test_what_no_one_answers_is_an_error_as_before():
    with pytest.raises(TypeError, match="a tensor or a number is expected"):
        rl.add(object(), 1)
    with overrides.DisableTorchFunctionSubclass():
        with pytest.raises(TypeError, match="a tensor or a number is expected"):
            rl.add(Duck(), 1)
        assert type(X + 1) is rl.Tensor and not overrides.has_torch_function((X,))


class Log(overrides.TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append((func.__name__, len(types)))
        return func(*args, **(kwargs or {}))


def test_modes_see_calls_as_they_are_written():
    with Log() as mode:
        y = F.normalize(rl.ones(2) + 1, dim=0)
        with Log() as inner:
            y.sum()
        y.sum() * X
    assert [name for name, _ in mode.names] == ["ones", "__add__", "normalize", "sum", "sum", "__mul__"]
    assert [name for name, _ in inner.names] == ["sum"] and mode.names[-1][1] == 1
    before = list(mode.names)
    assert (rl.ones(2) + 1).tolist() == [2.0, 2.0] and mode.names == before


def test_modes_may_replace_results_and_be_switched_off():
    class Zero(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 0 if func is rl.add else func(*args, **(kwargs or {}))

    with Zero():
        assert rl.add(PLAIN, 1) == 0 and rl.sub(PLAIN, 1).tolist() == [0.0] * 3
        with overrides.DisableTorchFunction():
            assert rl.add(PLAIN, 1).tolist() == [2.0] * 3
        with overrides.DisableTorchFunctionSubclass():
            assert rl.add(X, 1) == 0


def test_compiled_functions_ask_overrides_while_they_are_traced():
    for function, given in ((lambda a: a + X, PLAIN), (lambda a: a + 1, X)):
        compiled = rl.compile(function, fullgraph=True)
        for _ in range(2):
            found = compiled(given)
            assert type(found) is Logged and found.tolist() == function(given).tolist()
    with Log() as mode:
        rl.compile(lambda a: a + 1, fullgraph=True)(PLAIN)
    assert len(mode.names) == 1


def test_own_functions_ask_by_the_protocol():
    def scaled(x, factor):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(scaled, (x,), x, factor=factor)
        return x * factor

    assert scaled(Duck(), 3)[0] is scaled and type(scaled(X, 3)) is Logged
    assert asked(lambda: scaled(X, 3))[0][0] is scaled
    assert overrides.resolve_name(rl.add) == "torch.add" and rl.add in overrides.get_overridable_functions()["torch"]
    assert overrides.is_tensor_like(Duck()) and overrides.is_tensor_like(PLAIN) and not overrides.is_tensor_like(3)


def test_a_mode_can_call_what_reads_a_property():
    class Names(overrides.TorchFunctionMode):
        def __init__(self):
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Names() as mode:
        x = rl.arange(6).reshape(2, 3).mT
    assert x.shape == (3, 2)
    assert mode.names[-1] == "__get__"


def test_iteration_keeps_the_class():
    class Plain(rl.Tensor):
        pass

    x = rl.arange(3).as_subclass(Plain)
    assert [type(one) for one in x] == [Plain] * 3 and type(reversed(x)) is Plain
    assert [one.item() for one in x] == [0, 1, 2] and reversed(x).tolist() == [2, 1, 0]
