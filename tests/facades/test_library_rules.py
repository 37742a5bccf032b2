"""Custom operators whose rules change, whose sizes only a run tells, and that a function records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.facades.custom_operators import array, code_of, drawn

import rushlight as rl
from rushlight import library
from rushlight.autograd import grad
from tensors import same

pytestmark = pytest.mark.usefixtures("quick_code")


def again_times(factor: int) -> library.CustomOpDef:
    """The operator mine::again, defined, or defined again."""

    @library.custom_op("mine::again", mutates_args=())
    def again(x: rl.Tensor) -> rl.Tensor:
        return rl.tensor(array(x) * factor)

    again.register_fake(rl.empty_like)
    return again


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_functions_reach_by_name_what_is_defined_now(operators: None, fullgraph: bool) -> None:
    programs = [
        lambda x: rl.ops.mine.again(x) + 1,
        lambda x: rl.ops.mine.again.default(x) + 1,
        lambda x: rl.vmap(rl.ops.mine.again)(x) + 1,
        lambda x: rl.cond(x.sum() > 0, rl.ops.mine.again, rl.neg, (x,)) + 1,
    ]
    again_times(2)
    compiled = [rl.compile(program, fullgraph=fullgraph) for program in programs]
    for factor in (2, 3, 4):
        again_times(factor)
        for function in compiled:
            assert function(rl.ones(3)).tolist() == [factor + 1.0] * 3


def test_an_operator_that_was_defined_again_says_so_to_who_holds_it(operators: None) -> None:
    held = again_times(2)
    compiled = rl.compile(lambda x: held(x) + 1, fullgraph=True)
    compiled(rl.ones(3))
    again_times(3)
    for call in (held, held.default, compiled):
        assert code_of(lambda call=call: call(rl.ones(3))) == "A011"
    unused = rl.compile(lambda x: (held(x), x + 1)[1], fullgraph=True)
    assert code_of(lambda: unused(rl.ones(3))) == "A011"


@pytest.mark.parametrize("fullgraph", [True, False])
def test_rules_that_are_registered_later_count_in_compiled_functions(operators: None, fullgraph: bool) -> None:
    again = again_times(2)
    compiled = rl.compile(lambda x: again(x) + 1, fullgraph=fullgraph)
    mapped = rl.compile(lambda x: rl.vmap(again)(x) + 1, fullgraph=fullgraph)
    x = drawn(3, 2)
    compiled(x), mapped(x.detach())
    again.register_autograd(lambda ctx, g: g * 2)
    assert same(grad(compiled(x).sum(), x)[0], rl.full((3, 2), 2.0, dtype=rl.float64))
    again.register_vmap(lambda info, dims, x: (again(x) * info.batch_size, 0))
    assert same(mapped(x.detach()), again(x.detach()) * 3 + 1)
    assert same(mapped(x.detach()[:2]), again(x.detach()[:2]) * 2 + 1)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_rules_are_given_sizes_as_integers(operators: None, fullgraph: bool) -> None:
    """What a graph holds as an expression of sizes is an integer to a rule, with comparisons that are guarded."""

    @library.custom_op("mine::stretched", mutates_args=())
    def stretched(x: rl.Tensor, count: int, *, offset: int = 1) -> rl.Tensor:
        return rl.from_numpy(np.concatenate([array(x)] * (2 if count == 3 else 1)) + offset)

    @stretched.register_fake
    def _(x: Any, count: Any, *, offset: Any = 1) -> Any:
        return x.new_empty(x.shape[0] * (2 if count == 3 else 1))

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
        ctx.factor = 5.0 if keyword_only_inputs["offset"] == 3 else 7.0
        ctx.parts = 2 if inputs[1] == 3 else 1

    stretched.register_autograd(
        lambda ctx, g: (g.unflatten(0, (ctx.parts, -1)).sum(0) * ctx.factor, None), setup_context=setup
    )
    function = rl.compile(lambda x, count, offset: stretched(x, count, offset=offset) * 2, fullgraph=fullgraph)
    x = drawn(4)
    for count, offset, parts, factor in ((3, 3, 2, 5.0), (2, 3, 1, 5.0), (3, 2, 2, 7.0), (4, 4, 1, 7.0)):
        result = function(x, count, offset)
        assert same(result, stretched(x, count, offset=offset) * 2)
        assert same(grad(result.sum(), x)[0], rl.full((4,), 2 * parts * factor, dtype=rl.float64))


def positive_operator() -> library.CustomOpDef:
    """The elements above 0, five at most, and their places: how many there are only a run tells."""

    @library.custom_op("mine::positive", mutates_args=())
    def positive(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        elements = array(x)
        return rl.from_numpy(elements[elements > 0]), rl.from_numpy(np.flatnonzero(elements > 0))

    @positive.register_fake
    def _(x: Any) -> Any:
        count = library.get_ctx().new_dynamic_size(max=5)
        return x.new_empty(count), x.new_empty(count, dtype=rl.int64)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output[1])
        ctx.size = inputs[0].shape[0]

    def backward(ctx: Any, g: Any, of_places: Any) -> Any:
        return rl.zeros(ctx.size, dtype=g.dtype).index_add(0, ctx.saved_tensors[0], g)

    positive.register_autograd(backward, setup_context=setup)
    return positive


@pytest.mark.parametrize("fullgraph", [True, False])
def test_sizes_of_results_may_follow_from_values(operators: None, fullgraph: bool) -> None:
    positive = positive_operator()

    def loss(x: Any) -> Any:
        return positive(x * 2)[0].square().sum() + positive(x)[1].sum()

    rl.compiler.reset()
    compiled = rl.compile(loss, fullgraph=fullgraph)
    for values in ([-1.0, 2.0, 3.0], [1.0, -2.0], [-1.0, -1.0], [1.0] * 5):
        x = rl.tensor(values, dtype=rl.float64, requires_grad=True)
        assert same(compiled(x), loss(x))
        assert same(*grad(compiled(x), x), *grad(loss(x), x))
    if fullgraph:
        assert rl.compiler.graph_count() == 1
        assert code_of(lambda: compiled(rl.ones(6, dtype=rl.float64))) == "R002"
    x = rl.tensor([1.0, -2.0, 3.0], dtype=rl.float64, requires_grad=True)
    assert set(library.opcheck(positive, (x,)).values()) == {"SUCCESS"}


def test_programs_keep_sizes_that_values_tell(operators: None, tmp_path: Any) -> None:
    positive = positive_operator()
    program = rl.export.export(lambda x: positive(x)[0] * 2, (rl.ones(3),), dynamic_shapes=({0: rl.export.Dim.AUTO},))
    rl.export.save(program, tmp_path / "positive.zip")
    for module in (program.module(), rl.export.load(tmp_path / "positive.zip").module()):
        x = rl.tensor([1.0, -1.0, 2.0, 3.0], requires_grad=True)
        assert module(x).tolist() == [2.0, 4.0, 6.0]
        assert grad(module(x).sum(), x)[0].tolist() == [2.0, 0.0, 2.0, 2.0]
        assert rl.compile(module)(x).tolist() == [2.0, 4.0, 6.0]


def test_a_new_size_has_to_be_shown_by_a_result(operators: None) -> None:
    @library.custom_op("mine::hidden", mutates_args=())
    def hidden(x: rl.Tensor) -> rl.Tensor:
        return x.clone()

    @hidden.register_fake
    def _(x: Any) -> Any:
        return x.new_empty(library.get_ctx().new_dynamic_size() * 2)

    assert code_of(lambda: rl.compile(hidden, fullgraph=True)(rl.ones(2))) == "A012"
    assert code_of(lambda: hidden(rl.ones(2, device="meta"))) == "A006"
    assert code_of(library.get_ctx) == "A006"


def test_fakes_on_the_meta_device_may_be_like_their_arguments(operators: None) -> None:
    again = again_times(2)
    assert again(rl.ones(2, device="meta")).device.type == "meta"
    compiled = rl.compile(lambda x: (rl.empty_like(x, device="meta"), x + 1), fullgraph=True)
    like, more = compiled(rl.ones(2))
    assert (like.device.type, tuple(like.shape), more.tolist()) == ("meta", (2,), [2.0, 2.0])


def test_impl_takes_a_library_as_pytorch_does(operators: None) -> None:
    with library.Library("mine", "FRAGMENT") as lib:
        lib.define("halved(Tensor x) -> Tensor")

        @library.impl(lib, "halved", "CPU")
        def _(x: Any) -> Any:
            return rl.tensor(array(x) / 2)

        assert rl.ops.mine.halved(rl.ones(2)).tolist() == [0.5, 0.5]


def test_a_function_may_record_calls_at_the_autograd_key(operators: None) -> None:
    with library.Library("mine", "FRAGMENT") as lib:
        lib.define("tripled(Tensor x) -> Tensor")
        lib.impl("tripled", lambda x: rl.tensor(array(x) * 3), "CPU")
        lib.impl("tripled", rl.empty_like, "Meta")

        class Tripled(rl.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return rl.ops.mine.tripled(x)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return rl.ops.mine.tripled(g)

        lib.impl("tripled", Tripled.apply, "Autograd")
        assert code_of(lambda: lib.impl("tripled", Tripled.apply, "Autograd")) == "A011"
        x = drawn(4)
        for tripled in (rl.ops.mine.tripled, rl.compile(lambda x: rl.ops.mine.tripled(x), fullgraph=True)):
            y = tripled(x)
            assert same(y, x.detach() * 3)
            (first,) = grad((y * x).sum(), x, create_graph=True)
            assert rl.allclose(first, 6 * x)
        assert rl.ops.mine.tripled(x.detach()).requires_grad is False
        program = rl.export.export(lambda x: rl.ops.mine.tripled(x), (x,))
        assert rl.allclose(grad(program.module()(x).sum(), x)[0], rl.full((4,), 3.0, dtype=rl.float64))


def test_what_registers_ends_a_graph(operators: None) -> None:
    """Each call defines the operator anew, with the number of that call in its kernel."""

    def program(x: Any, factor: float) -> Any:
        y = x + 1
        with library.Library("mine", "FRAGMENT") as lib:
            lib.define("times(Tensor x) -> Tensor")
            lib.impl("times", lambda x: rl.tensor(array(x) * factor), "CPU")
            library.register_fake("mine::times", rl.empty_like, lib=lib)
            return rl.ops.mine.times(y) + 1

    compiled = rl.compile(program)
    for factor in (2.0, 3.0, 4.0):
        assert compiled(rl.ones(2), factor).tolist() == [2 * factor + 1] * 2
    assert code_of(lambda: rl.compile(program, fullgraph=True)(rl.ones(2), 2.0)) == "C039"


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("key", ["CPU", "CompositeImplicitAutograd"])
def test_what_a_call_is_in_an_autocast_region(key: str) -> None:
    with library.Library("ours", "DEF") as made:
        made.define("product(Tensor x, Tensor y, float scale=1.0) -> Tensor")
        made.impl("product", lambda x, y, scale=1.0: (x @ y) * scale, key)
        made.impl(rl.ops.ours.product.default, lambda x, y, scale=1.0: x.new_empty(x.shape[0], y.shape[1]), "Meta")

        def cast(x: rl.Tensor, y: rl.Tensor, scale: float) -> rl.Tensor:
            with rl.autocast("cpu", enabled=False):
                return rl.ops.ours.product(x.float(), y.float(), scale + 1)

        made.impl("product", cast, "AutocastCUDA")
        made.impl("product", cast, "AutocastCPU")
        assert code_of(lambda: made.impl("product", cast, "AutocastCPU")) == "A011"
        x, y = drawn(3, 4).double(), drawn(4, 2).double()

        def program(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            with rl.autocast("cpu"):
                return rl.ops.ours.product(x, y, 1.0)

        for function in (program, rl.compile(program, fullgraph=True)):
            assert function(x, y).dtype is rl.float32
            assert same(function(x, y), (x.float() @ y.float()) * 2)
        assert same(rl.ops.ours.product(x, y), x @ y)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("fullgraph", [None, False, True])
def test_a_derivative_that_is_not_there_is_missed_where_it_is_asked_for(fullgraph: bool | None) -> None:
    """A graph computes the operator, and gradients of other results."""

    @library.custom_op("ours::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: rl.Tensor) -> rl.Tensor:
        return rl.empty_like(x)

    def program(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return twice(x * 2), (x * 3).sum()

    function = program if fullgraph is None else rl.compile(program, fullgraph=fullgraph)

    def asked(size: int) -> None:
        x = rl.ones(size, requires_grad=True)
        first, second = function(x)
        assert first.tolist() == [4] * size and first.requires_grad
        second.backward()
        assert x.grad.tolist() == [3] * size
        assert code_of(lambda: function(x)[0].sum().backward()) == "G008"
        assert code_of(lambda: rl.autograd.grad(function(x)[0].sum() + x.sum(), x)) == "G008"
        assert x.grad.tolist() == [3] * size

    asked(3)
    asked(4)
