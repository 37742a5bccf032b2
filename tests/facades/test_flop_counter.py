"""Operations are counted as PyTorch 2.13 counts them, forward and backward, eager and compiled, and by module."""

import math

import pytest

import rushlight as rl
from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula

F = rl.nn.functional


def counted(function, *args):
    with FlopCounterMode(display=False) as counter:
        result = function(*args)
        if result.requires_grad:
            result.sum().backward()
    return counter.get_total_flops()


def leaf(*shape):
    return rl.ones(*shape, requires_grad=True)


# The figures are those of torch 2.13, but for groups, whose gradients it counts as if there were none, and for
# attention and mv, which it does not count on the CPU.
@pytest.mark.parametrize(
    ("function", "shapes", "forward", "both"),
    [
        (F.linear, [(2, 4, 3), (6, 3), (6,)], 288, 864),
        (rl.matmul, [(5, 2, 4, 3), (3, 7)], 1680, 5040),
        (rl.bmm, [(2, 4, 3), (2, 3, 5)], 240, 720),
        (rl.addmm, [(6,), (4, 3), (3, 6)], 144, 432),
        (rl.baddbmm, [(2, 4, 5), (2, 4, 3), (2, 3, 5)], 240, 720),
        (lambda x, w: F.conv2d(x, w, padding=1, stride=2, groups=2), [(2, 4, 8, 8), (6, 2, 3, 3)], 6912, 20736),
        (F.conv_transpose2d, [(2, 3, 8, 8), (3, 4, 3, 3)], 27648, 82944),
        (lambda a, b: rl.einsum("bij,bjk->bik", a, b), [(2, 4, 3), (2, 3, 5)], 240, 720),
        (F.scaled_dot_product_attention, [(2, 4, 8, 16)] * 3, 32768, 114688),
        (rl.mv, [(4, 3), (3,)], 24, 24 * 3),
        (lambda x: F.gelu(x).softmax(-1), [(4, 4)], 0, 0),
    ],
)
def test_forward_and_backward_are_counted(function, shapes, forward, both):
    assert counted(function, *[rl.ones(*shape) for shape in shapes]) == forward
    assert counted(function, *[leaf(*shape) for shape in shapes]) == both
    with rl.no_grad():
        assert counted(function, *[leaf(*shape) for shape in shapes]) == forward


def test_forms_that_write_are_counted():
    target, left, right = rl.ones(4, 6), rl.ones(4, 3), rl.ones(3, 6)
    assert counted(lambda: target.addmm_(left, right)) == counted(lambda: rl.mm(left, right, out=target)) == 144
    assert counted(lambda: rl.ones(2, 4, 5).baddbmm_(rl.ones(2, 4, 3), rl.ones(2, 3, 5))) == 240


def test_compiled_functions_and_empty_tensors_are_counted():
    step = rl.compile(lambda x, w: (x @ w).relu() @ w)
    step(rl.ones(3, 3), rl.ones(3, 3))
    assert counted(step, rl.ones(3, 3), rl.ones(3, 3)) == 2 * 2 * 27
    assert counted(rl.matmul, rl.ones(0, 3), rl.ones(3, 5)) == 0 == counted(rl.matmul, rl.ones(2, 0), rl.ones(0, 5))


def test_modules_are_counted_by_name_and_shown(capsys):
    model = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.ReLU(), rl.nn.Sequential(rl.nn.Linear(16, 4)))
    with FlopCounterMode(model) as counter:
        model(rl.ones(10, 8))
    counts = {name: sum(of.values()) for name, of in counter.get_flop_counts().items()}
    first, second = 2 * 10 * 8 * 16, 2 * 10 * 16 * 4
    whole = first + second
    assert counts == {
        "Global": whole, "Sequential": whole, "Sequential.0": first, "Sequential.2": second, "Sequential.2.0": second
    }  # fmt: skip
    assert list(counter.get_flop_counts()["Global"]) == [rl.ops.aten.linear]
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["Module", "FLOP", "%", "Total"] and "66.67%" in "".join(shown)
    assert not any("Sequential.2.0" in line for line in shown) and "Sequential.2.0" in counter.get_table(depth=3)
    assert not model._forward_hooks and not model._forward_pre_hooks
    with pytest.raises(rl.RushlightError), FlopCounterMode(model, display=False):
        model(rl.ones(10, 9))
    assert not model[0]._forward_hooks
    with pytest.raises(rl.RushlightError, match="mods are modules"):
        FlopCounterMode("model")


def test_formulas_may_be_given():
    mapping = {rl.ops.aten.sin: lambda given, *, out_shape, **rest: 7 * math.prod(out_shape)}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        rl.ones(2, 3).sin()
    assert counter.get_flop_counts() == {"Global": {rl.ops.aten.sin: 42}}

    @rl.library.custom_op("counted::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    @register_flop_formula(rl.ops.counted.twice, get_raw=True)
    def of_twice(x, *, out_val, **rest):
        return x.numel() + out_val.numel()

    assert counted(twice, rl.ones(5)) == 10
