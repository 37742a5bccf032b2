"""What a compiled function leaves on the tape: which results have a history, and which passes through it are left."""

import random

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError

OPTIONS = [{}, {"fullgraph": True}, {"backend": "eager"}]
STEPS = [
    lambda a, b: a * 2,
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a.sin(),
    lambda a, b: a.exp(),
    lambda a, b: a - b,
    lambda a, b: a.view(-1),
    lambda a, b: rl.cat([a, b])[:3],
    lambda a, b: a.sum() + b,
    lambda a, b: a.detach() * b,
    lambda a, b: -a,
]


def drawn(seed):
    """A function of several results, and passes from some of them: which, whether they keep, and by `grad`."""
    draw = random.Random(seed)
    steps = [(draw.choice(STEPS), draw.random(), draw.random()) for _ in range(draw.randint(1, 7))]
    results = [draw.random() for _ in range(draw.randint(1, 3))]

    def function(x, w):
        values = [x, w]
        for step, first, second in steps:
            values.append(step(values[int(first * len(values))], values[int(second * len(values))]))
        return tuple([values[2 + int(part * (len(values) - 2))] for part in results])

    passes = []
    for _ in range(draw.randint(1, 4)):
        chosen = draw.sample(range(len(results)), draw.randint(1, len(results)))
        passes.append((sorted(chosen), draw.random() < 0.2, draw.random() < 0.2))
    return function, passes


def outcomes(function, passes):
    """What each pass gives: gradients, or the code of its error."""
    x, w = (rl.tensor(values, requires_grad=True) for values in ([0.3, 0.5, 0.7], [0.2, 0.4, 0.6]))
    results = function(x, w)
    found = [[result.requires_grad for result in results]]
    for chosen, keeps, asks in passes:
        roots = [results[at].sum() for at in chosen if results[at].requires_grad]
        if not roots:
            continue
        try:
            if asks:
                gradients = rl.autograd.grad(roots, [x, w], retain_graph=keeps, allow_unused=True)
            else:
                rl.autograd.backward(roots, retain_graph=keeps)
                gradients = x.grad, w.grad
            found.append([None if one is None else one.tolist() for one in gradients])
        except RushlightError as error:
            found.append(error.code)
            x.grad = w.grad = None
    return found


@pytest.mark.parametrize("seed", range(24))
def test_passes_from_several_results_free_what_eager_code_frees(seed):
    function, passes = drawn(seed)
    expected = outcomes(function, passes)
    for options in OPTIONS:
        assert outcomes(rl.compile(function, **options), passes) == expected


class Stops(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None


class StopsOne(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 2

    @staticmethod
    def backward(ctx, first, second):
        return None, second * 2


WEIGHT = rl.nn.Parameter(rl.tensor([0.3, 0.4, 0.5]))
ENDED = {
    "stops": lambda x: (Stops.apply(x),),
    "stops and goes on": lambda x: (Stops.apply(x), x * 2),
    "behind": lambda x: (Stops.apply(x) + 1, x.detach() * 2),
    "one of two": lambda x: StopsOne.apply(x, x * 1),
    "none of two": lambda x: StopsOne.apply(x, x.detach()),
    "of a parameter": lambda x: (Stops.apply(WEIGHT),),
    "in a new tensor": lambda x: (rl.zeros(3).copy_(Stops.apply(x)),),
    "filled": lambda x: (x.clone().fill_(2.0),),
    "zeroed": lambda x: ((x * 1).zero_(),),
    "copied to": lambda x: ((x * 1).copy_(rl.ones(3)), x.round()),
    "no elements": lambda x: (x[:0], rl.cat([x[:0], rl.ones(3)])),
}


@pytest.mark.parametrize("name", ENDED)
def test_a_history_without_gradients_is_a_history(name):
    def seen(function):
        x, WEIGHT.grad = rl.ones(3, requires_grad=True), None
        results = function(x)
        total = sum([one.sum() for one in results if one.requires_grad], rl.zeros(()))
        if total.requires_grad:
            total.backward()
        gradients = [None if one.grad is None else one.grad.tolist() for one in (x, WEIGHT)]
        return [(one.requires_grad, one.is_leaf, one.grad_fn is None) for one in results], gradients

    expected = seen(ENDED[name])
    for options in OPTIONS:
        assert seen(rl.compile(ENDED[name], **options)) == expected


def test_gradients_of_what_is_overwritten_are_zeros():
    for write in (lambda h: h.fill_(2.0), lambda h: h.zero_(), lambda h: h.copy_(rl.ones(3)), lambda h: h.normal_()):
        x = rl.ones(3, requires_grad=True)
        write(x * 1).sum().backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def copies(h):
    h.copy_(WEIGHT.sin())
    (h * h).sum().backward()


def copies_a_part(h):
    h[:2] = WEIGHT.sin()[:2]
    (h * h).sum().backward()


def copies_and_returns(h):
    h.copy_(WEIGHT.sin())
    (h * h).sum().backward()
    return (WEIGHT * 2).sum()


def keeps(h):
    h.mul_(WEIGHT)
    (h * h).sum().backward(retain_graph=True)


def stops(h):
    h.copy_(Stops.apply(WEIGHT))


@pytest.mark.parametrize("function", [copies, copies_a_part, copies_and_returns, keeps, stops])
def test_an_overwritten_input_has_the_history_that_eager_code_gives_it(function):
    def seen(function):
        h, WEIGHT.grad = rl.full((3,), 3.0), None
        function(h)
        found = [h.requires_grad, h.grad_fn is None]
        for _ in range(2):
            try:
                h.sum().backward()
                found.append(None if WEIGHT.grad is None else WEIGHT.grad.tolist())
            except RushlightError as error:
                found.append(error.code)
        return found

    expected = seen(function)
    for options in OPTIONS:
        compiled = rl.compile(function, **options)
        assert [seen(compiled) for _ in range(2)] == [expected] * 2


OF_INTEGERS = {
    "power": lambda x, n: ((n**x).sum(), (x * n).sum()),
    "quotient": lambda x, n: ((x * (n / 3)).sum(), (x.sin() * n.exp()).sum()),
    "base": lambda x, n: ((2**x).sum(), (n ** (x * 2)).sum()),
}


@pytest.mark.parametrize("dtypes", [(rl.float64, rl.float32), (rl.float32, rl.float64)], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_a_backward_pass_under_another_default_dtype_is_that_of_its_graph(name, dtypes):
    def seen(function, passes):
        x, n = rl.tensor([0.5, 0.6, 0.7], dtype=rl.float32, requires_grad=True), rl.tensor([1, 2, 3])
        rl.set_default_dtype(dtypes[0])
        try:
            results = function(x, n)
            rl.set_default_dtype(dtypes[1])
            if passes == "both":
                (first,) = rl.autograd.grad(sum(results), x, create_graph=True)
                return rl.autograd.grad(first.sum(), x)[0]
            results[passes].backward()
            return x.grad
        finally:
            rl.set_default_dtype(rl.float32)

    for passes in (0, 1, "both"):
        expected = seen(OF_INTEGERS[name], passes)
        for options in ({}, {"backend": "eager"}):
            found = seen(rl.compile(OF_INTEGERS[name], **options), passes)
            assert found.dtype is expected.dtype
            assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


class Once(rl.autograd.Function):
    """Its gradient is not differentiated again."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    @rl.autograd.once_differentiable
    def backward(ctx, gradient):
        return gradient * 3


@pytest.mark.parametrize("breaks", [False, True])
def test_gradients_that_are_not_differentiated_again_say_so_behind_a_graph(breaks):
    def function(x):
        (first,) = rl.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
        if breaks:
            print(end="")
        return first.sum() + (x**2).sum()

    for call in (function, rl.compile(function)):
        for _ in range(2):
            result = call(rl.ones(3, requires_grad=True))
            assert result.item() == 57
            with pytest.raises(RushlightError) as caught:
                result.backward()
            assert caught.value.code == "G008"


def test_one_graph_gives_no_gradient_that_is_not_differentiated_again():
    def function(x):
        return rl.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)[0]

    with pytest.raises(RushlightError) as caught:
        rl.compile(function, fullgraph=True)(rl.ones(3, requires_grad=True))
    assert caught.value.code == "C042"
