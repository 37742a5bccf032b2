"""Views by strides, of repeated elements and of bytes: read, written through and differentiated, eager and compiled."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.func import functionalize
from rushlight.support.errors import RushlightError


def grid():
    return np.arange(24, dtype=np.float32).reshape(4, 6)


def expanded_row(x):
    y = x[0].expand(3, 6)
    y[1] = -1.0
    return y.clone()


def expanded_and_turned(x):
    y = x[0].expand(3, 6)
    y.t()[2:4, 0] = x[1, 2:4]
    return y * 1.0


def window_of_windows(x):
    y = x.unfold(1, 3, 1)
    y[1, 1].mul_(3.0)
    return y * 1.0


def repeated_and_filled(x):
    x[0].expand(3, 6).fill_(4.0)
    x.unfold(0, 2, 2)[1].zero_()
    return x * 1.0


def by_strides(x):
    x[1:].as_strided((2, 2), (5, 1), 3).add_(5.0)
    return x * 1.0


def turned_by_strides(x):
    x.t().as_strided((2, 2), (5, 1)).add_(5.0)
    return x.t().as_strided((3, 3), (1, 1), 2) * 1.0


def gaps_by_steps(x):
    x[:, ::2].unsqueeze(0).expand(2, 4, 3)[1, 0] = 7.0
    return x * 1.0


def bytes_of_it(x):
    x.t().view(rl.int32)[1].as_strided((2,), (3,), 2).fill_(0)
    return x.view(rl.int32).float()


FUNCTIONS = [
    expanded_row,
    expanded_and_turned,
    window_of_windows,
    repeated_and_filled,
    by_strides,
    turned_by_strides,
    gaps_by_steps,
    bytes_of_it,
]


def meaning(function):
    """The result and the grid afterwards by numpy, whose views share memory as PyTorch's do."""
    x = grid()
    flat = x.reshape(-1)
    strided = np.lib.stride_tricks.as_strided
    if function is expanded_row:
        x[0] = -1.0
        result = np.broadcast_to(x[0], (3, 6))
    elif function is expanded_and_turned:
        x[0, 2:4] = x[1, 2:4]
        result = np.broadcast_to(x[0], (3, 6))
    elif function is window_of_windows:
        x[1, 1:4] *= 3.0
        result = np.lib.stride_tricks.sliding_window_view(x, 3, 1)
    elif function is repeated_and_filled:
        x[0] = 4.0
        x[2:] = 0.0
        result = x
    elif function is by_strides:
        strided(flat[3:], (2, 2), (20, 4))[...] += 5.0
        result = x
    elif function is turned_by_strides:
        strided(flat, (2, 2), (20, 4))[...] += 5.0
        result = strided(flat[2:], (3, 3), (4, 4))
    elif function is gaps_by_steps:
        x[0, ::2] = 7.0
        result = x
    else:
        flat[2:6:3] = 0.0
        result = x.view(np.int32).astype(np.float32)
    return result.tolist(), x.tolist()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_writes_are_seen_by_all_that_share_the_memory(function):
    """Result and operand, eager and compiled, twice with one artifact."""
    for run in (function, rl.compile(function)):
        for _ in range(2):
            x = rl.from_numpy(grid())
            found = run(x)
            assert (found.tolist(), x.tolist()) == meaning(function)


def of_a_row(x):
    x[1] *= 2


def of_a_repeated_row(x):
    x.expand(2, 3, 3)[1, 2] += x[0]


def of_a_filled_row(x):
    x[1].fill_(9)


def of_a_filled_repeated_row(x):
    x.expand(2, 3, 3)[1, 2].zero_()


def of_all(x):
    x.fill_(9)


@pytest.mark.parametrize("function", [of_a_row, of_a_repeated_row, of_a_filled_row, of_a_filled_repeated_row, of_all])
def test_writes_to_a_part_of_what_overlaps_are_seen_by_the_rest(function):
    """An argument shows a place several times: where one part of it is written to, so are others."""
    outcomes = []
    for run in (function, rl.compile(function), functionalize(function)):
        base = rl.arange(10.0)
        run(base.as_strided((3, 3), (1, 2)))
        outcomes.append(base.tolist())
    assert outcomes == outcomes[:1] * 3


@pytest.mark.parametrize("function", [expanded_and_turned, window_of_windows, by_strides, turned_by_strides])
def test_gradients_through_them_are_those_of_finite_steps(function):
    """Each function is linear in its operand, so a step of one is exact."""
    weights = rl.from_numpy(np.cos(np.arange(200.0)).astype(np.float32))

    def loss(x):
        y = function(x * 1.0)
        return (y * weights[: y.numel()].reshape(*y.shape)).sum()

    zero = loss(rl.zeros(4, 6)).item()
    wanted = [loss(rl.from_numpy(np.eye(24, dtype=np.float32)[at].reshape(4, 6))).item() - zero for at in range(24)]
    for run in (loss, rl.compile(loss)):
        x = rl.from_numpy(grid()).requires_grad_()
        run(x).backward()
        assert np.allclose(x.grad.numpy().reshape(-1), wanted, atol=1e-5)


# A view of y (rows of an own copy of the grid), and what its sum's gradient is by PyTorch 2.13.
GRADIENTS = [
    (lambda y: y[1:].as_strided((2, 3), (1, 1), 2), []),  # outside what it is taken of
    (lambda y: y[1:].as_strided((2, 3), (1, 1), 5), [(6, 2), (7, 2), (8, 1)]),
    (lambda y: y.t().as_strided((2, 2), (6, 1)), [(0, 1), (1, 1), (6, 1), (7, 1)]),
    (lambda y: y[:, :1].expand(4, 3).as_strided((2, 2), (6, 0)), [(0, 2), (6, 2)]),
    (lambda y: y[:, ::2].as_strided((3,), (1,)), [(0, 1), (2, 1)]),
]


@pytest.mark.parametrize(("view", "places"), GRADIENTS)
def test_gradients_of_views_by_strides_are_those_of_what_they_are_taken_of(view, places):
    """What the view shows beyond its operand has no part in the operand's gradient."""
    wanted = np.zeros(24, np.float32)
    for place, value in places:
        wanted[place] = value
    for run in (lambda x: view(x * 1.0).sum(), rl.compile(lambda x: view(x * 1.0).sum())):
        x = rl.from_numpy(grid()).requires_grad_()
        run(x).backward()
        assert x.grad.numpy().reshape(-1).tolist() == wanted.tolist()


@pytest.mark.parametrize("loss", [lambda y: y.sum(), lambda y: (y.t() * rl.arange(24.0).reshape(6, 4)).sum()])
def test_scatters_by_strides_take_gradients_of_any_layout(loss):
    """As those of a sum, which shows one element everywhere, or transposed ones."""
    outcomes = []

    def program(x, part):
        return loss(rl.as_strided_scatter(x, part, (2, 2), (5, 1), 3))

    for run in (program, rl.compile(program)):
        x, part = rl.from_numpy(grid()).requires_grad_(), rl.ones(2, 2, requires_grad=True)
        run(x, part).backward()
        outcomes.append((x.grad.tolist(), part.grad.tolist()))
    assert outcomes[0] == outcomes[1]
    weights = rl.ones(4, 6, requires_grad=True)
    loss(weights).backward()
    wanted = weights.grad.reshape(24).tolist()
    assert outcomes[0][1] == [[wanted[3], wanted[4]], [wanted[8], wanted[9]]]


def test_the_storage_offset_is_that_of_the_storage():
    """An artifact is for one offset of an argument where the program asks for a place in its storage."""
    x = rl.arange(12.0)
    function = rl.compile(lambda x: x.as_strided((2,), (1,), 5) * 1.0)
    for part in (x, x[4:], x[3:], x[4:]):
        assert function(part).tolist() == [5.0, 6.0]
    assert rl.compile(lambda x: x[2:].storage_offset() + x.storage_offset())(x[3:]) == 8


def test_views_by_strides_of_written_memory_with_gaps_show_the_gaps():
    """Whole programs refuse them: a value that was written has no gaps, though its memory has."""

    def read(x):
        x.permute(1, 2, 0)[:, 1:, :] = 2.0
        return x.as_strided((2, 2), (1, 1), 7) + 0.0

    def written(x):
        x[:, 1] = 2.0
        x.unfold(1, 2, 1)[0] = 3.0
        x[1:].unfold(1, 2, 1)[0] = 4.0
        return x + 0.0

    def of_gaps():
        return rl.arange(23.0).as_strided((3, 2, 2), (3, 12, 1))

    for function in (read, written):
        assert rl.compile(function)(of_gaps()).tolist() == function(of_gaps()).tolist()
    with pytest.raises(RushlightError) as caught:
        rl.compile(read, fullgraph=True)(of_gaps())
    assert caught.value.code == "A006"


def test_strides_of_what_has_gaps_are_refused():
    """A program knows the values of an argument, and not what lies between them."""
    with pytest.raises(RushlightError) as caught:
        rl.compile(lambda x: x.as_strided((2,), (1,)) * 1.0, fullgraph=True)(rl.arange(12.0)[::2])
    assert caught.value.code == "A006"


def test_bytes_as_another_dtype():
    """A view with its operand's memory, and without a gradient."""
    x = rl.from_numpy(grid())
    for run in (lambda x: x.t()[1:].view(rl.int32), rl.compile(lambda x: x.t()[1:].view(rl.int32), fullgraph=True)):
        assert run(x).numpy().tolist() == grid().T[1:].view(np.int32).tolist()
    x.view(rl.int32)[0].zero_()
    assert x[0].tolist() == [0.0] * 6
    assert not x.requires_grad_().view(rl.int32).view(rl.float32).requires_grad
    assert (x > 3).view(rl.uint8).sum().item() == 18
    plain = x.detach()
    for run in (
        lambda x, dtype: x.view(dtype),
        rl.compile(lambda x, dtype: x.view(dtype), fullgraph=True),
    ):  # of another width
        assert run(plain, rl.int16).numpy().tolist() == plain.numpy().view(np.int16).tolist()
        assert run(plain, rl.complex64).numpy().tolist() == plain.numpy().view(np.complex64).tolist()
    with pytest.raises(RushlightError) as caught:  # a bool in a program is 0 or 1
        rl.compile(lambda mask: mask.view(rl.uint8).fill_(3), fullgraph=True)(x > 3)
    assert caught.value.code == "A006"


def test_tensors_without_dims():
    """movedim and masks without dims."""
    s = rl.tensor(2.0)
    for run in (lambda f: f(s), lambda f: rl.compile(f)(s)):
        assert run(lambda s: s.movedim(0, -1)).item() == 2.0
        assert run(lambda s: s[s > 0]).tolist() == [2.0]
        assert run(lambda s: s[s < 0]).shape == (0,)
    x = rl.arange(6.0).reshape(2, 3)
    assert x[s > 0].tolist() == [x.tolist()]
    assert x[s < 0].shape == (0, 2, 3)
    x[s > 0] = 3.0
    x[0][s < 0] = 9.0
    assert x.tolist() == [[3.0] * 3] * 2


def test_a_view_made_before_a_write_has_the_history_of_the_write():
    """As a result it has the gradient of what its base has become."""

    def written(x):
        whole = rl.ones_like(x)
        shown = whole.swapaxes(0, 1)
        whole.mul_(x)
        return shown

    for run in (written, rl.compile(written)):
        x = rl.from_numpy(grid()).requires_grad_()
        run(x).sum().backward()
        assert x.grad.tolist() == np.ones((4, 6)).tolist()


def test_a_write_through_views_that_repeat_takes_empty_ones():
    """No element is one place with another where there is none (PyTorch takes all of them)."""

    def expanded(x):
        return x[:1].expand(3, x.shape[1]).mul_(2.0)

    def windows(x):
        return x.unfold(0, 2, 1).add_(1.0)

    def by_strides(x):
        return x.as_strided((3, 0), (0, 1)).neg_()

    for write in (expanded, windows, by_strides):

        def program(x, write=write):
            y = x * 1.0
            write(y)
            return y * 2.0

        for run in (program, rl.compile(program)):
            x = rl.ones(3, 0, requires_grad=True)
            run(x).sum().backward()
            assert x.grad.shape == (3, 0)
    x = rl.ones(3, 0)
    assert rl.compile(expanded)(x).shape == (3, 0)


@pytest.mark.parametrize(("fill", "wanted"), [("unfold", [0.0, 0.0, 0.0]), ("expand", [0.0, 2.0, 2.0])])
def test_fills_of_repeated_elements_have_gradients(fill, wanted):
    """None reaches what they overwrite."""

    def program(x):
        y = x * 1.0
        shown = y.unfold(0, 2, 1) if fill == "unfold" else y[:1].expand(3, 2)
        shown.fill_(3.0)
        return y * 2.0

    for run in (program, rl.compile(program)):
        x = rl.ones(3, 2, requires_grad=True)
        run(x).sum().backward()
        assert x.grad.tolist() == [[value, value] for value in wanted]


DETACHED = [
    lambda x: x.unflatten(0, (2, -1)).detach().as_strided((2, 1), (0, 0), 1),
    lambda x: x.view(rl.int32).view(rl.float32).as_strided((2,), (1,)).t(),
    lambda x: x.detach()[1:].as_strided((2,), (1,))[:1],
]


@pytest.mark.parametrize("view", DETACHED)
def test_views_by_strides_of_what_is_detached_are_detached(view):
    """Also where they are results, and made again at each call."""
    x = rl.arange(6.0).requires_grad_()
    outside = view(x)
    for run in (lambda x: view(x), rl.compile(lambda x: view(x)), rl.compile(lambda x: outside[:1])):
        found = run(x)
        assert not found.requires_grad
        assert found.grad_fn is None
        assert found.data_ptr() == outside.data_ptr()


def test_an_assignment_takes_symbols_that_are_one():
    """Sizes of a value that meet a target's size of 1: the example says that they are 1, which is guarded."""

    def row(x, value):
        x[None, -1, :, ...] = value - 1.0
        return x

    def part(x, value):
        x.view(4, 1)[2::2, :] = value[1:2:3]
        return x

    for function, shape, given in ((row, (1, 3), (1, 3)), (part, (4,), (2,)), (part, (4,), (9,))):
        outcomes = []
        for run in (function, rl.compile(function)):
            x, value = rl.zeros(*shape), rl.arange(float(np.prod(given))).reshape(given)
            outcomes.append((run(x, value).tolist(), x.tolist()))
        assert outcomes[0] == outcomes[1]
    with pytest.raises(RushlightError) as caught:
        rl.compile(row)(rl.zeros(1, 3), rl.zeros(2, 3))
    assert caught.value.code == "S009"
