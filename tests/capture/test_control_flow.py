"""cond, while_loop, scan and map, eagerly and in compiled functions: the same bits, and the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture import explain_entries, graph_count
from rushlight.compiler import reset
from rushlight.support.errors import RushlightError
from rushlight.utils._pytree import tree_leaves
from tensors import same

F = Callable[..., Any]


def drawn(seed: int, *shape: int) -> Any:
    return rl.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def gradients(function: F, parameters: list[Any], *args: Any) -> list[Any]:
    """The result and the gradients; where there is none, zeros."""
    for parameter in parameters:
        parameter.grad = None
    result = function(*args)
    result.backward()
    grads = [rl.zeros_like(item) if item.grad is None else item.grad + 0.0 for item in parameters]
    return [result.detach(), *grads]


def weight(seed: int, *shape: int) -> Any:
    return drawn(seed, *shape).requires_grad_(True)


class Layers(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rl.manual_seed(0)
        self.one = rl.nn.Linear(4, 4)
        self.other = rl.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return rl.cond(x.sum() > 0, lambda: self.one(x).relu(), lambda: self.other(x).tanh())


# Branches.


def by_value(x: Any) -> Any:
    return rl.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))


def trees(x: Any) -> Any:
    found = rl.cond(
        (x > 0).any(),
        lambda p: {"a": p["x"] + 1, "b": (p["n"], 3)},
        lambda p: {"a": p["x"], "b": (5, 3)},
        ({"x": x, "n": 2},),
    )
    return found["a"] * found["b"][0], found["b"][1], found["b"][0] + 1


def other_sizes(x: Any) -> Any:
    kept = rl.cond(x.sum() > 0, lambda: x[x > 0], lambda: x.reshape(-1)[:2])
    return kept * 3, kept.shape[0], rl.cat([kept, x.reshape(-1)]).sum()


def nested(x: Any) -> Any:
    return rl.cond(
        x.sum() > 0,
        lambda: rl.cond(x.max() > 1, lambda: x * 2, lambda: x * 3),
        lambda: rl.cond(x.min() < -1, lambda: x - 2, lambda: x - 3),
    )


def by_size(x: Any) -> Any:
    return rl.cond(x.sum().item() > 0, lambda: x.mT.contiguous().mT, lambda: -x), rl.cond(True, lambda: x, lambda: 0)


def promised_in_a_branch(x: Any) -> Any:
    number = (x > 0).sum().item()

    def first_two() -> Any:
        rl.check(number >= 2)
        return x[x > 0][:2].sum()

    return rl.cond(number >= 2, first_two, lambda: x.sum())


@pytest.mark.parametrize("program", [by_value, trees, other_sizes, nested, by_size, promised_in_a_branch])
def test_one_graph_has_all_branches(program: F):
    compiled = rl.compile(program)
    for seed, shift in enumerate((1.0, -1.0, 0.1, -0.1, 3.0, -3.0)):
        x = drawn(seed, 3 + seed % 2, 4) * 0.5 + shift
        assert same(compiled(x), program(x))
    assert graph_count() == 1


def test_a_branch_that_is_not_taken_is_not_compiled():
    compiled = rl.compile(by_value)
    compiled(rl.ones(3, 4))
    (entry,) = explain_entries(compiled)
    executable = next(item for item in entry.call.__globals__.values() if hasattr(item, "_steps"))
    runners = [
        cell.cell_contents["branches"]
        for run, _ in executable._steps
        for cell in run.__closure__ or ()
        if isinstance(cell.cell_contents, dict) and "branches" in cell.cell_contents
    ]
    (branches,) = runners
    assert [branch._runs is not None for branch in branches] == [True, False]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "reference"])
@pytest.mark.parametrize("program", [by_value, other_sizes, nested])
def test_other_backends_run_branches(program: F, backend: str):
    compiled = rl.compile(program, backend=backend)
    for shift in (1.0, -1.0):
        x = drawn(0, 3, 4) + shift
        found, wanted = compiled(x), program(x)
        if backend == "reference":
            pairs = zip(*[item if isinstance(item, tuple) else (item,) for item in (found, wanted)], strict=True)
            assert all(np.allclose(np.asarray(a), np.asarray(b), atol=1e-6) for a, b in pairs)
        else:
            assert same(found, wanted)


def test_gradients_of_branches_are_those_of_eager():
    w, b = weight(1, 4), weight(2, 4)

    def loss(x: Any, c: Any) -> Any:
        shared = x * w
        y = rl.cond(c > 0, lambda: (shared * b).sin() * shared + w, lambda: shared[1:] / (b * b + 1))
        return (y * y).sum() + (shared * 2).sum()

    compiled = rl.compile(loss)
    x = drawn(3, 3, 4).requires_grad_(True)
    for value in (1.0, -1.0):
        parts = [gradients(function, [w, b, x], x, rl.tensor(value)) for function in (compiled, loss)]
        assert same(*parts)
    assert graph_count() == 1


def test_parameters_of_modules_are_trained_in_branches():
    model = Layers()
    compiled = rl.compile(model)
    parameters = list(model.parameters())
    for shift in (1.0, -1.0):
        x = drawn(0, 3, 4) + shift
        parts = [gradients(lambda x, f=f: (f(x) ** 2).sum(), parameters, x) for f in (compiled, model)]
        assert same(*parts)


def test_what_is_detached_in_a_branch_stays_so():
    w = weight(1, 4)

    def loss(x: Any) -> Any:
        def branch() -> Any:
            with rl.no_grad():
                still = w * x
            return w.detach() * w * still

        return rl.cond(x.sum() > 0, branch, lambda: w * 1).sum()

    assert same(gradients(rl.compile(loss), [w], rl.ones(4)), gradients(loss, [w], rl.ones(4)))


# Scans.


def running(x: Any) -> Any:
    return rl.scan(lambda c, x: (c + x, (c * x, {"c": c})), rl.zeros(4), x)


def along_another_dim(x: Any) -> Any:
    return rl.scan(lambda c, x: (c * 0.5 + x, c - x), x[:, 0], x, dim=1, reverse=True)


def of_trees(x: Any) -> Any:
    init = {"sum": rl.zeros(4), "count": rl.zeros((), dtype=rl.int64)}

    def step(carry: Any, part: Any) -> Any:
        one, (other,) = part
        total = carry["sum"] + one * other
        return {"sum": total, "count": carry["count"] + 1}, total.sum()

    return rl.scan(step, init, (x, [x + 1]))


def cond_in_scan(x: Any) -> Any:
    return rl.scan(lambda c, x: (rl.cond(x.sum() > 0, lambda: c + x, lambda: c * x), c), rl.ones(4), x)


def mapped(x: Any) -> Any:
    return rl.map(lambda a, b: (a @ b, a.sum()), x, x.mT)


def of_unknown_length(x: Any) -> Any:
    return rl.scan(lambda c, x: (c + x, c * x), rl.tensor(1.0), x[x > 0])


def scan_in_scan(x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        c, ys = rl.scan(lambda c, x: (c * 0.9 + x, c), c, row)
        return c, ys.cumsum(0)

    return rl.scan(outer, rl.tensor(0.0), x)


SCANS = [running, along_another_dim, of_trees, cond_in_scan, mapped, of_unknown_length, scan_in_scan]


@pytest.mark.parametrize("program", SCANS, ids=lambda program: program.__name__)
def test_one_graph_serves_all_lengths(program: F):
    compiled = rl.compile(program)
    for seed, rows in enumerate((5, 3, 1, 64)):
        x = drawn(seed, rows, 4)
        assert same(compiled(x), program(x))
    assert graph_count() == 1


@pytest.mark.parametrize("program", [running, of_trees, cond_in_scan, mapped, scan_in_scan])
def test_a_scan_of_nothing_has_the_shapes_of_its_outputs(program: F):
    found, wanted = rl.compile(program)(drawn(0, 0, 4)), program(drawn(0, 0, 4))
    assert same(found, wanted)
    if program is running:
        assert wanted[1][0].shape == (0, 4) and same(wanted[0], rl.zeros(4))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_scans_are_those_of_eager(reverse: bool):
    w, start = weight(1, 4, 4), weight(2, 4)

    def loss(x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = (h @ w + x).tanh() * h + x * w[0] + h
            return h, h

        h, ys = rl.scan(step, start * 1, x, reverse=reverse)
        return (ys * ys).sum() + (h * w).sum()

    compiled = rl.compile(loss)
    for rows in (5, 1, 9):
        x = drawn(rows, rows, 4).requires_grad_(True)
        assert same(*[gradients(function, [w, start, x], x) for function in (compiled, loss)])
    assert graph_count() == 1


def test_gradients_flow_through_branches_in_scans_in_branches():
    w = weight(1, 4)

    def loss(x: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = rl.cond(x.sum() > 0, lambda: c * w + x * w, lambda: c - x / (w * w + 1))
            return c, c * w

        def along() -> Any:
            c, ys = rl.scan(body, x[0] * w, x)
            return c.sum() + (ys * ys).sum()

        return rl.cond(x[0, 0] > 0, along, lambda: (x * w).sum())

    compiled = rl.compile(loss)
    for seed in range(6):
        x = drawn(seed, 4, 4).requires_grad_(True)
        assert same(*[gradients(function, [w, x], x) for function in (compiled, loss)])
    assert graph_count() == 1


def test_gradients_of_maps_are_those_of_eager():
    w = weight(1, 4)

    def loss(x: Any) -> Any:
        return (rl.map(lambda a: (a * w).exp().sum() * a, x) ** 2).sum()

    x = drawn(1, 5, 4).requires_grad_(True)
    assert same(*[gradients(function, [w, x], x) for function in (rl.compile(loss), loss)])


def test_gradients_are_those_of_the_loop_written_out():
    w = weight(1, 4, 4)

    def step(h: Any, x: Any) -> Any:
        h = (h @ w + x).tanh()
        return h, h * 2

    def scanned(x: Any) -> Any:
        h, ys = rl.scan(step, rl.zeros(4), x)
        return h.sum() + ys.sin().sum()

    def written(x: Any) -> Any:
        h, ys = rl.zeros(4), []
        for row in x:
            h, y = step(h, row)
            ys.append(y)
        return h.sum() + rl.stack(ys).sin().sum()

    x = drawn(1, 6, 4).requires_grad_(True)
    found, wanted = [gradients(function, [w, x], x) for function in (scanned, written)]
    for one, other in zip(found, wanted, strict=True):
        rl.testing.assert_close(one, other)


def test_eager_scans_can_be_differentiated_twice():
    w = weight(1, 4)

    def loss() -> Any:
        return rl.scan(lambda c, x: (c * w + x, c), rl.ones(4), rl.ones(3, 4))[0].sum()

    (first,) = rl.autograd.grad(loss(), w, create_graph=True)
    (second,) = rl.autograd.grad(first.sum(), w)
    rl.testing.assert_close(second.detach(), 6 * w.detach() + 2)


def test_a_loop_variable_is_what_it_was_when_the_loop_ran():
    weights = [weight(1, 4), weight(2, 4)]

    def loss(x: Any) -> Any:
        for w in weights:
            _, x = rl.scan(lambda c, x: (c * w + x, c + x * w), rl.ones(4), x)  # noqa: B023 - the point of the test
        return x.sum()

    x = drawn(3, 5, 4)
    assert same(*[gradients(function, weights, x) for function in (rl.compile(loss), loss)])


# Loops of unknown length.


def halved(x: Any, limit: Any) -> Any:
    return rl.while_loop(
        lambda i, p: p["x"].abs().sum() > limit, lambda i, p: (i + 1, {"x": p["x"] / 2}), (0, {"x": x})
    )


def collatz(n: Any) -> Any:
    def step(n: Any, count: Any) -> Any:
        return rl.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), count + 1

    return rl.while_loop(lambda n, count: n > 1, step, (n, rl.tensor(0)))


def counted(x: Any, steps: Any) -> Any:
    return rl.while_loop(lambda i, x: i < steps, lambda i, x: (i + 1, x * 1.5 + i), [0, x])


def test_loops_run_until_they_are_told_not_to():
    for program, inputs in (
        (halved, [(drawn(0, 3), 0.1), (drawn(1, 4), 0.01), (rl.zeros(2), 1.0)]),
        (collatz, [(rl.tensor(27),), (rl.tensor(1),), (rl.tensor(6),)]),
        (counted, [(drawn(0, 3), 4), (drawn(0, 5), 0), (drawn(0, 5), 7)]),
    ):
        reset()
        compiled = rl.compile(program)
        for args in inputs:
            assert same(compiled(*args), program(*args))
        assert graph_count() == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_loops_of_unknown_length_have_no_gradient(compiled: bool):
    w = rl.ones(3, requires_grad=True)

    def loss(x: Any) -> Any:
        return rl.while_loop(lambda x: x.sum() < 10, lambda x: (x * w * w + 1,), (x,))[0].sum()

    function = rl.compile(loss) if compiled else loss
    with rl.no_grad():
        assert function(rl.ones(3)).item() >= 10
    with pytest.raises(RushlightError) as caught:
        function(rl.ones(3)).backward()
    assert caught.value.code == "G014"


def test_an_interrupt_stops_a_loop():
    class Stop:
        calls = 0

    def raise_later(*_: Any) -> None:
        Stop.calls += 1
        if Stop.calls == 3:
            raise KeyboardInterrupt

    compiled = rl.compile(lambda x: rl.while_loop(lambda x: (x > 0).all(), lambda x: (x + 1,), (x,)))
    original = rl.capture.control.array_of

    def watched(tensor: Any) -> Any:
        raise_later()
        return original(tensor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rushlight.capture.control.array_of", watched)
        with pytest.raises(KeyboardInterrupt):
            compiled(rl.ones(2))


# What is refused.


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("C033", lambda x: rl.scan(lambda c, x: (c.double(), x), x[0], x)),
        ("C033", lambda x: rl.scan(lambda c, x: (rl.cat([c, x]), x), x[0], x)),
        ("C033", lambda x: rl.scan(lambda c, x: ((c, c), x), x[0], x)),
        ("C033", lambda x: rl.while_loop(lambda x: x.sum() < 20, lambda x: (x.reshape(-1),), (x,))),
        ("A001", lambda x: rl.scan(lambda c, x: c, x[0], x)),
        ("A001", lambda x: rl.scan(lambda c, x: (c, x), 1.0, x)),
        ("A001", lambda x: rl.scan(lambda c, x: (c, x), x, ())),
        ("A001", lambda x: rl.cond(x, lambda: 1, lambda: 2)),
        ("A001", lambda x: rl.cond("yes", lambda: 1, lambda: 2)),
        ("A001", lambda x: rl.cond(True, lambda: 1, lambda: 2, x)),
        ("A001", lambda x: rl.while_loop(lambda x: True, lambda x: (x,), (1.5,))),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_does_not_fit_is_refused(code: str, program: F, compiled: bool):
    with pytest.raises(RushlightError) as caught:
        (rl.compile(program) if compiled else program)(rl.ones(3, 4))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("C031", lambda x: rl.cond(x.sum() > 0, lambda: x[0].mul_(2), lambda: x[0])),
        ("C031", lambda x: rl.map(lambda row: row.add_(1), x)),
        ("C032", lambda x: rl.map(lambda row: row + rl.rand(4), x)),
        ("C033", lambda x: rl.scan(lambda c, row: (c, row[row > 0]), x[0], x)),
        ("C033", lambda x: rl.cond(x.sum() > 0, lambda: x, lambda: x[0])),
        ("C033", lambda x: rl.cond(x.sum() > 0, lambda: (x, "a"), lambda: (x, "b"))),
    ],
)
def test_what_a_graph_cannot_be_is_refused(code: str, program: F):
    with pytest.raises(RushlightError) as caught:
        rl.compile(program, fullgraph=True)(rl.ones(3, 4))
    assert caught.value.code == code


def test_a_promise_of_a_branch_is_checked_where_the_branch_runs():
    def program(x: Any) -> Any:
        number = (x > 0).sum().item()

        def branch() -> Any:
            rl.check(number <= 2, "at most two")
            return x * 2

        return rl.cond(x.sum() > 0, branch, lambda: x)

    compiled = rl.compile(program)
    assert same(compiled(rl.tensor([1.0, 2.0, -1.0])), rl.tensor([2.0, 4.0, -2.0]))
    assert same(compiled(rl.tensor([1.0, 1.0, 1.0, -9.0])), rl.tensor([1.0, 1.0, 1.0, -9.0]))
    with pytest.raises(RushlightError, match="at most two") as caught:
        compiled(rl.tensor([1.0, 2.0, 3.0]))
    assert caught.value.code == "R002"


# Inside `vmap`.


def scanned(carry: Any, rows: Any) -> Any:
    return rl.scan(lambda c, x: (c * 0.5 + x, c * x), carry, rows)


def doubled(x: Any) -> Any:
    def step(i: Any, total: Any, x: Any) -> Any:
        return i + 1, total + x, x * 2

    return rl.while_loop(lambda i, total, x: i < 3, step, (rl.tensor(0), rl.zeros(3), x))[1]


MAPPED: dict[str, tuple[F, tuple[Any, ...], tuple[Any, ...]]] = {
    "scan": (scanned, (0, 0), (drawn(0, 2, 3), drawn(1, 2, 5, 3))),
    "scan of one carry": (scanned, (None, 0), (drawn(0, 3), drawn(1, 2, 5, 3))),
    "scan of the same rows": (scanned, (0, None), (drawn(0, 2, 3), drawn(1, 5, 3))),
    "scan of another dim": (
        lambda c, x: rl.scan(lambda c, x: (c + x, c * x), c, x, dim=-1, reverse=True),
        (0, 0),
        (drawn(0, 2, 3), drawn(1, 2, 3, 5)),
    ),
    "scan with a mapped factor": (
        lambda k, x: rl.scan(lambda c, x: (c * k + x, c), rl.zeros(3), x),
        (0, None),
        (drawn(0, 2), drawn(1, 5, 3)),
    ),
    "map": (lambda x, y: rl.map(lambda a, y: (a + y, a.sum()), x, y), (0, None), (drawn(0, 2, 4, 3), drawn(1, 3))),
    "while": (doubled, (0,), (drawn(0, 2, 3),)),
    "cond": (
        lambda p, x: rl.cond(p, lambda x: (x.sin(), x.sum()), lambda x: (x + 1, x.max()), (x,)),
        (None, 0),
        (rl.tensor(False), drawn(0, 2, 3)),
    ),
    "cond of each place": (
        lambda x: rl.cond(x.sum() > 0, lambda x: (x.sin(), x.sum()), lambda x: (x + 1, x.max()), (x,)),
        (0,),
        (rl.tensor([[1.0, 2], [-1, -3]]),),
    ),
}


@pytest.mark.parametrize("name", MAPPED)
def test_control_flow_is_that_of_each_place(name: str):
    function, dims, arguments = MAPPED[name]
    places = [
        function(*[a if dim is None else a[at] for a, dim in zip(arguments, dims, strict=True)]) for at in range(2)
    ]
    expected = [rl.stack(pair) for pair in zip(*[tree_leaves(place) for place in places], strict=True)]
    mapped = rl.vmap(function, dims)
    for found in (mapped(*arguments), rl.compile(mapped, fullgraph=True)(*arguments)):
        for one, other in zip(tree_leaves(found), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)
    nested = rl.vmap(mapped, tuple(None if dim is None else 0 for dim in dims))
    twice = [a if dim is None else rl.stack([a, a]) for a, dim in zip(arguments, dims, strict=True)]
    for one, other in zip(tree_leaves(rl.compile(nested, fullgraph=True)(*twice)), expected, strict=True):
        np.testing.assert_allclose(one.numpy(), np.stack([other.numpy()] * 2), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_mapped_scans_are_those_of_the_loop(compiled: bool):
    def loss(factor: Any, rows: Any) -> Any:
        carry, outputs = rl.scan(lambda c, x: (c * factor + x, c * x), rl.ones(2), rows)
        return carry.sum() + (outputs**2).sum()

    factors, rows = drawn(0, 3), drawn(1, 3, 4, 2)
    slope = rl.vmap(rl.func.grad(loss, (0, 1)))
    found = (rl.compile(slope, fullgraph=True) if compiled else slope)(factors, rows)
    for place in range(3):
        factor, row = factors[place].double().requires_grad_(True), rows[place].double().requires_grad_(True)
        carry, total = rl.ones(2, dtype=rl.float64), rl.zeros((), dtype=rl.float64)
        for x in row:
            carry, total = carry * factor + x, total + ((carry * x) ** 2).sum()
        (carry.sum() + total).backward()
        np.testing.assert_allclose(found[0][place].numpy(), factor.grad.numpy(), rtol=1e-4)
        np.testing.assert_allclose(found[1][place].numpy(), row.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_loop_asks_one_question_for_all_places():
    with pytest.raises(RushlightError) as caught:
        rl.vmap(lambda x: rl.while_loop(lambda x: x.sum() < 9, lambda x: (x * 2,), (x,)))(rl.ones(2, 3))
    assert caught.value.code == "A006"
    with pytest.raises(RushlightError) as caught:
        rl.compile(rl.vmap(lambda x: rl.while_loop(lambda x: x.sum() < 9, lambda x: (x * 2,), (x,))), fullgraph=True)(
            rl.ones(2, 3)
        )
    assert caught.value.code in ("A006", "C002")


@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_with_fewer_dims_are_stacked_in_front(compiled: bool):
    """A dim counts from the end of what is gone along, not of the outputs."""

    def both(c: Any, x: Any) -> Any:
        return rl.scan(lambda c, x: (c + x, (c.sum(), c * 2, c[None])), c, x, dim=-1)

    c, x = drawn(0, 3), drawn(1, 3, 5)
    carry, (sums, rows, deep) = (rl.compile(both, fullgraph=True) if compiled else both)(c, x)
    before = c.numpy()[:, None] + np.cumsum(np.concatenate([np.zeros((3, 1), np.float32), x.numpy()], 1), 1)
    np.testing.assert_allclose(carry.numpy(), before[:, -1], rtol=1e-5)
    np.testing.assert_allclose(sums.numpy(), before[:, :-1].sum(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rows.numpy(), before[:, :-1] * 2, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(deep.numpy(), before[None, :, :-1].transpose(0, 2, 1), rtol=1e-4, atol=1e-6)
