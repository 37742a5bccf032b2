"""`rl.library`: custom operators, eager, compiled, exported, batched and differentiated; and what `opcheck` finds."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.facades.custom_operators import TEN, array, code_of, drawn, made

import rushlight as rl
from rushlight import library
from rushlight.autograd import grad
from rushlight.eager.interception import TorchDispatchMode
from tensors import same

pytestmark = pytest.mark.usefixtures("quick_code")


@pytest.mark.row("2.9")
@pytest.mark.parametrize("name", TEN)
def test_ten_operators_pass_all_checks(name: str) -> None:
    for operator in made(name):
        _, arguments, options = TEN[name]
        found = library.opcheck(operator, arguments(), options)
        assert set(found.values()) == {"SUCCESS"}
        assert len(found) == 7


def test_a_function_defined_again_takes_the_place_of_the_earlier_one(operators: None) -> None:
    def cell(factor: int) -> Any:
        @library.custom_op("mine::again", mutates_args=())
        def again(x: rl.Tensor) -> rl.Tensor:
            return rl.from_numpy(x.numpy() * factor)

        again.register_fake(rl.empty_like)
        return again

    for factor in (2, 3):
        again = cell(factor)
        compiled = rl.compile(lambda x, again=again: again(x) + rl.ops.mine.again(x), fullgraph=True)
        assert again(rl.ones(1)).item() == factor and compiled(rl.ones(1)).item() == 2 * factor
    with library.Library("mine", "FRAGMENT") as lib:
        lib.define("kept(Tensor x) -> Tensor")
        assert (
            code_of(lambda: library.custom_op("mine::kept", rl.clone, mutates_args=(), schema="(Tensor x) -> Tensor"))
            == "A011"
        )


def faulty(fault: str) -> tuple[library.CustomOpDef, tuple[Any, ...]]:
    """An operator with one fault."""
    wrong = {"write": fault == "write", "alias": fault == "alias"}

    @library.custom_op("faulty::double", mutates_args=())
    def double(x: rl.Tensor) -> rl.Tensor:
        if wrong["write"]:
            array(x)[...] += 1
        return x[:] if wrong["alias"] else rl.tensor(array(x) * 2)

    fakes = {
        "shape": lambda x: rl.empty(x.shape[0] + 1, x.shape[1], dtype=x.dtype),
        "dtype": lambda x: rl.empty(x.shape, dtype=rl.float32),
        "stride": lambda x: rl.empty(x.shape[1], x.shape[0], dtype=x.dtype).mT,
    }
    double.register_fake(fakes.get(fault, lambda x: rl.empty(x.shape, dtype=x.dtype)))
    factor = 3 if fault == "gradient" else 2
    double.register_autograd(lambda ctx, g: g * factor)
    return double, (drawn(3, 4),)


FAULTS = {
    "write": ("test_schema", "not in mutates_args"),
    "shape": ("test_faketensor", "has the shape"),
    "dtype": ("test_faketensor", "has the dtype"),
    "stride": ("test_faketensor", "has the strides"),
    "gradient": ("test_gradients", "gradients are not those of differences"),
    "alias": ("test_schema", "lies in the memory of an argument"),
}


@pytest.mark.row("2.9")
@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    operator, arguments = faulty(fault)
    check, text = FAULTS[fault]
    found = library.opcheck(operator, arguments, raise_exception=False)
    assert text in found[check]
    assert code_of(lambda: library.opcheck(operator, arguments, test_utils=check)) == "A012"


@pytest.mark.usefixtures("operators")
def test_a_compiled_call_refuses_what_the_fake_kernel_did_not_say() -> None:
    for fault in ("shape", "dtype", "stride"):
        operator, (x,) = faulty(fault)
        compiled = rl.compile(lambda x, op=operator: op(x) + 1, fullgraph=True)
        assert code_of(lambda: compiled(x.detach())) == "A012"  # noqa: B023 - called here
        operator.remove()


def test_schemas_follow_from_annotations() -> None:
    def function(
        x: rl.Tensor,
        parts: Sequence[rl.Tensor],
        other: rl.Tensor | None,
        n: int,
        sizes: list[int],
        scale: float = 1.5,
        *,
        name: str = "a",
        flag: bool = False,
        kind: rl.dtype | None = None,
    ) -> tuple[rl.Tensor, rl.Tensor]: ...

    text = library.infer_schema(function, mutates_args={"x"})
    assert text == (
        "(Tensor(a0!) x, Tensor[] parts, Tensor? other, SymInt n, SymInt[] sizes, float scale=1.5, *,"
        " str name='a', bool flag=False, ScalarType? kind=None) -> (Tensor, Tensor)"
    )
    assert library.infer_schema(lambda_of(), mutates_args="unknown", op_name="f") == "f(Tensor(a0!) x) -> ()"


def lambda_of() -> Callable[..., None]:
    def function(x: rl.Tensor) -> None: ...

    return function


def test_schemas_that_cannot_be_inferred_are_errors() -> None:
    def unannotated(x) -> rl.Tensor: ...  # type: ignore[no-untyped-def]
    def strange(x: set[int]) -> rl.Tensor: ...
    def variable(*x: rl.Tensor) -> rl.Tensor: ...
    def untyped(x: rl.Tensor): ...  # type: ignore[no-untyped-def]
    def number(x: rl.Tensor) -> float: ...

    for function in (unannotated, strange, variable, untyped, number):
        assert code_of(lambda: library.infer_schema(function, mutates_args=())) == "A010"  # noqa: B023 - called here
    assert code_of(lambda: library.infer_schema(lambda_of(), mutates_args=("y",))) == "A010"


@pytest.mark.usefixtures("operators")
def test_one_node_of_a_graph_is_an_operator() -> None:
    for operator in made("sine"):
        seen: list[str] = []

        def backend(graph: Any, inputs: Any, seen: list[str] = seen) -> Any:
            return graph

        program = rl.export.export(lambda x, op=operator: op(x) + 1, (drawn(3, 4).detach(),))
        assert str(program).count("ten::sine") == 1
        assert not seen


@pytest.mark.usefixtures("operators")
def test_effects_keep_their_order() -> None:
    rl.compiler.reset()
    log: list[float] = []

    @library.custom_op("mine::note", mutates_args=())
    def note(x: rl.Tensor, factor: float) -> None:
        log.append(float(x.sum()) * factor)

    @rl.compile(fullgraph=True)
    def function(x: Any) -> Any:
        note(x, 1.0)
        y = x * 2
        note(y, 10.0)
        note(x, 100.0)
        return y

    for _ in range(2):
        log.clear()
        assert function(rl.ones(2)).tolist() == [2.0, 2.0]
        assert log == [2.0, 40.0, 200.0]
    assert rl.compiler.graph_count() == 1


@pytest.mark.usefixtures("operators")
def test_written_arguments_are_written_in_graphs() -> None:
    for operator in made("increased"):

        def function(x: Any, y: Any, op: Any = operator) -> Any:
            h = x * 2
            before = op(h, y)
            old = op(x, y)
            return h - before, old + x

        x, y = drawn(3, grad=False), drawn(3, seed=1, grad=False)
        wanted_x = x.clone()
        wanted = function(wanted_x, y)
        found = rl.compile(function, fullgraph=True)(x, y)
        assert all(map(same, found, wanted))
        assert same(x, wanted_x)
        z = drawn(3)
        assert code_of(lambda: operator(z * 1, y)) == "G008"  # noqa: B023 - called here
        assert code_of(lambda: rl.compile(lambda x: operator(x, x), fullgraph=True)(y.clone())) == "C012"  # noqa: B023 - called here


def test_gradients_of_any_order() -> None:
    for operator in made("sine"):
        x = drawn(3)
        for function in (operator, rl.compile(operator, fullgraph=True)):
            (first,) = grad(function(x).sum(), x, create_graph=True)
            (second,) = grad(first.sum(), x)
            assert same(first, x.cos())
            assert rl.allclose(second, -x.sin())


def test_batches_run_place_by_place_and_are_differentiated() -> None:
    for operator in made("sine"):
        x = drawn(4, 3)
        found = rl.vmap(operator)(x)
        assert rl.allclose(found, x.sin())
        assert rl.allclose(grad(found.sum(), x)[0], x.cos())
        assert rl.vmap(operator)(rl.ones(0, 3)).shape == (0, 3)
        per_place = rl.vmap(rl.func.grad(lambda row: operator(row).sum()))(x)  # noqa: B023 - called here
        assert rl.allclose(per_place, x.cos())


def test_meta_tensors_have_the_types_of_results() -> None:
    for operator in made("product"):
        result = operator(rl.empty(3, 4, device="meta"), rl.empty(4, 5, device="meta"))
        assert result.shape == (3, 5)
        assert result.device.type == "meta"


def test_one_graph_serves_all_sizes() -> None:
    rl.compiler.reset()
    for operator in made("product"):
        compiled = rl.compile(lambda x, y: operator(x, y) * 2, fullgraph=True)  # noqa: B023 - called here
        for rows in (3, 5, 1):
            x, y = drawn(rows, 4), drawn(4, 2, seed=1)
            assert same(compiled(x, y), operator(x, y) * 2)
        assert rl.compiler.graph_count() == 1


def test_programs_are_saved_with_custom_operators(tmp_path: Any) -> None:
    x = drawn(3, 4, grad=False)
    path = tmp_path / "program.rl"
    for operator in made("sine"):
        rl.export.save(rl.export.export(lambda x: operator(x) + 1, (x,)), path)  # noqa: B023 - called here
        assert same(rl.export.load(path).module()(x), operator(x) + 1)
    assert code_of(lambda: rl.export.load(path)) == "C009"


@pytest.mark.usefixtures("operators")
def test_a_library_defines_and_takes_back() -> None:
    with library.Library("mine", "DEF") as lib:
        assert lib.define("triple(Tensor x, SymInt n=1) -> Tensor") == "triple"
        operator = library.OPERATORS["mine::triple"]
        assert code_of(lambda: operator(rl.ones(1))) == "A011"
        lib.impl("triple", lambda x, n: x * 3, "CPU")
        assert operator(rl.ones(1)).item() == 3.0
        assert code_of(lambda: lib.impl("triple", lambda x, n: x, "CPU")) == "A011"
        assert code_of(lambda: lib.define("triple(Tensor x) -> Tensor")) == "A011"
        assert code_of(lambda: lib.define("bad(Tensor(a) x) -> Tensor(a)")) == "A010"
    assert "mine::triple" not in library.OPERATORS
    assert code_of(lambda: library.register_fake("mine::triple", lambda x, n: x)) == "A011"
    library.define("mine::triple", "(Tensor x) -> Tensor")
    library.impl("mine::triple", "default")(lambda x: x * 4)
    assert library.OPERATORS["mine::triple"](rl.ones(1)).item() == 4.0


@pytest.mark.usefixtures("operators")
def test_composite_operators_are_traced_through() -> None:
    @library.triton_op("mine::composite", mutates_args=())
    def composite(x: rl.Tensor) -> rl.Tensor:
        return x.sin() * 2

    x = drawn(3)
    assert same(rl.compile(composite, fullgraph=True)(x), x.sin() * 2)
    assert rl.allclose(grad(composite(x).sum(), x)[0], x.cos() * 2)


@pytest.mark.usefixtures("operators")
def test_operators_without_derivative_say_so() -> None:
    @library.custom_op("mine::plain", mutates_args=())
    def plain(x: rl.Tensor) -> rl.Tensor:
        return rl.tensor(np.sin(array(x)))

    assert code_of(lambda: plain(drawn(3)).sum().backward()) == "G008"
    compiled = rl.compile(plain, fullgraph=True)
    assert code_of(lambda: compiled(rl.ones(3))) == "A011"  # nothing tells the types of its results


@pytest.mark.usefixtures("operators")
def test_modes_answer_by_what_was_registered_for_them() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    for operator in made("scaled"):

        @operator.register_torch_dispatch(Mode)
        def _(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return args[0] * 100

        x = rl.ones(2)
        with Mode():
            assert operator(x).tolist() == [100.0, 100.0]
        assert operator(x).tolist() == [3.0, 3.0]


@pytest.mark.usefixtures("operators")
def test_autocast_casts_operands() -> None:
    for operator in made("sine"):
        library.register_autocast("ten::sine", "cpu", rl.float32)
        with rl.autocast("cpu", dtype=rl.bfloat16):
            assert operator(drawn(3)).dtype is rl.float32
        assert operator(drawn(3)).dtype is rl.float64


@pytest.mark.usefixtures("operators")
def test_what_a_kernel_may_not_do_is_refused_at_each_call() -> None:
    operator, (x,) = faulty("alias")
    assert code_of(lambda: operator(x)) == "A012"

    @library.custom_op("mine::writing", mutates_args=())
    def writing(x: rl.Tensor) -> rl.Tensor:
        return x.add_(1).clone()

    assert code_of(lambda: writing(rl.ones(2))) == "A012"


@pytest.mark.usefixtures("operators")
def test_threads_define_and_call_operators_of_their_own() -> None:
    failures: list[object] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                operator = library.CustomOpDef(f"thread::op{number}", "(Tensor x) -> Tensor")
                operator.register_kernel("cpu", lambda x: x * number)
                assert operator(rl.ones(1)).item() == number
                operator.remove()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_mode_is_given_the_operator_that_its_namespace_has():
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    @rl.library.custom_op("told::halved", mutates_args=())
    def halved(x: rl.Tensor) -> rl.Tensor:
        return x / 2

    x = rl.arange(3.0)
    try:
        with Log():
            assert halved(x).tolist() == [0.0, 0.5, 1.0]
        func = seen[0]
        assert func is rl.ops.told.halved.default is halved.default
        assert func.overloadpacket is rl.ops.told.halved
        assert (func.namespace, func.name(), func.overloads()) == ("told", "told::halved", ["default"])
        assert func(x).tolist() == [0.0, 0.5, 1.0] and pickle.loads(pickle.dumps(func)) is func
        rl.library.register_fake(func, rl.empty_like)
        assert rl.compile(lambda x: func(x) + 1, fullgraph=True)(x).tolist() == [1.0, 1.5, 2.0]
    finally:
        halved.remove()

    @rl.library.custom_op("told::halved", mutates_args=())
    def tripled(x: rl.Tensor) -> rl.Tensor:
        return x * 3

    try:
        with Log():
            assert tripled(x).tolist() == [0.0, 3.0, 6.0]
        assert seen[-1] is tripled.default is not func
    finally:
        tripled.remove()


def test_the_overload_of_a_composite_is_the_composite():
    x = rl.ones(3, requires_grad=True)
    with library.Library("told", "DEF") as told:
        told.define("summed(Tensor x) -> Tensor")
        told.impl("summed", lambda x: x.sum() + 1, "CompositeImplicitAutograd")
        assert rl.ops.told.summed.default(x).item() == 4.0
        rl.ops.told.summed.default(x).backward()
    assert x.grad is not None and x.grad.tolist() == [1.0] * 3


def test_operators_are_named_by_namespace():
    @rl.library.custom_op("named::halved", mutates_args=())
    def halved(x: rl.Tensor) -> rl.Tensor:
        return x / 2

    halved.register_fake(rl.empty_like)
    x = rl.arange(3.0)
    try:
        assert rl.ops.named.halved is halved
        assert rl.ops.named.halved.default(x).tolist() == [0.0, 0.5, 1.0]
        assert dir(rl.ops.named) == ["halved"]
        assert rl.compile(lambda x: rl.ops.named.halved(x) + 1, fullgraph=True)(x).tolist() == [1.0, 1.5, 2.0]
        assert not hasattr(rl.ops.named, "doubled")
    finally:
        halved.remove()
    assert not hasattr(rl.ops, "named")
    assert rl.ops.aten.add.Tensor(x, x).tolist() == [0.0, 2.0, 4.0]
    assert rl.ops.aten.sum.dim_IntList(x, [0]).item() == 3.0
    assert rl.ops.aten.relu.default is rl.fx.ops.relu
    assert rl.ops.aten.mm.default(rl.ones(1, 2), rl.ones(2, 1)).item() == 2.0
    with pytest.raises(rl.NotSupportedError):
        rl.ops.aten.no_such_operator(x)
