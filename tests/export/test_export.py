"""Exported programs: what they assume, what they hold, how they run, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim, ExportedProgram, dims, export, load, save
from rushlight.ir.graph import inner_of
from rushlight.nn import functional as F
from rushlight.ops.record import Fact, define, undefine
from rushlight.shapes import ParamsSpec
from rushlight.support.errors import RushlightError
from tensors import data, same

HERE = Path(__file__).name


def kept(program: ExportedProgram, folder: Path) -> ExportedProgram:
    """The program, saved and loaded."""
    save(program, folder / "program.safetensors")
    found = load(folder / "program.safetensors")
    assert str(found) == str(program)
    return found


def exported_again(program: ExportedProgram, *args: Any) -> None:
    """Fails unless the program comes out of its module as it went in."""
    assert str(export(program.module(), args, dynamic_shapes=program.spec)) == str(program)


def names_of(program: ExportedProgram) -> list[str]:
    """The operators that it calls, in order."""
    return [call.op.name for call in program.graph.calls if call.op.name != "number"]


def refused(code: str, call: Any, said: str | None = None) -> str:
    """What an error with a code says."""
    with pytest.raises(RushlightError, match=said) as caught:
        call()
    assert caught.value.code == code, caught.value
    return str(caught.value)


# What is assumed.


def scaled(x: Any, y: Any) -> Any:
    return (x @ y).relu() * x.shape[0]


def test_sizes_are_as_open_as_the_program_allows():
    program = export(scaled, (data(5, 3), data(3, 2)))
    assert str(program.spec) == "f32[s0, s1], f32[s1, s2] where hint s0 = 5, hint s1 = 3, hint s2 = 2"
    assert not program.checks
    for rows, inner, columns in ((5, 3, 2), (0, 3, 2), (1, 1, 1), (7, 0, 4), (2, 9, 1)):
        x, y = data(rows, inner), data(inner, columns)
        assert same(program.module()(x, y), scaled(x, y))
    refused("C022", lambda: program.module()(data(5, 3), data(4, 2)), "s1 is 3 .* and 4")
    refused("C022", lambda: program.module()(data(5, 3).double(), data(3, 2)), "f64")
    refused("C022", lambda: program.module()(data(3), data(3, 2)), "argument 0")


def test_what_is_asked_of_sizes_becomes_an_assumption():
    program = export(lambda x: x + 1 if x.shape[0] < 1024 else x, (data(4, 2),))
    assert str(program.spec) == "f32[s0, s1] where s0 <= 1023, hint s0 = 4, hint s1 = 2"
    refused("C022", lambda: program.module()(data(2000, 2)), "s0 <= 1023")


def test_which_objects_arguments_are_is_nothing_that_a_program_holds():
    tagged: Any = data(3)
    tagged.tag = 2.0
    for function in (lambda x, y: x * 2 if x is y else x + y, lambda x, y: x * {x: 1, y: 2}[x], lambda x, y: y * x.tag):
        for args in ((tagged, tagged), (tagged, data(3))):
            refused("C003", lambda function=function, args=args: export(function, args))


def test_dims_by_name_are_never_fixed():
    batch = Dim("batch", max=64)
    shapes = {"x": {0: batch}, "y": {0: 2 * batch + 1}}
    program = export(lambda x, y: x.sum() + y[1:].sum(), (data(4, 3), data(9, 3)), dynamic_shapes=shapes)
    assert str(program.spec) == "f32[batch, 3], f32[2*batch + 1, 3] where batch <= 64"
    for rows in (0, 1, 64):
        x, y = data(rows, 3), data(2 * rows + 1, 3)
        assert same(program.module()(x, y), x.sum() + y[1:].sum())
    refused("C022", lambda: program.module()(data(65, 3), data(131, 3)), "batch <= 64")
    refused("C022", lambda: program.module()(data(4, 3), data(10, 3)))
    fixing = {"x": {0: batch}}
    told = refused("C002", lambda: export(lambda x: x if x.shape[0] == 4 else -x, (data(4),), dynamic_shapes=fixing))
    assert HERE in told and "batch" in told


def test_several_dims_are_made_by_one_call():
    rows, columns = dims("rows", "columns", min=2, max=8)
    program = export(lambda x: x + 1, (data(4, 3),), dynamic_shapes=({0: rows, 1: columns},))
    single = Dim("rows", min=2, max=8), Dim("columns", min=2, max=8)
    other = export(lambda x: x + 1, (data(4, 3),), dynamic_shapes=(dict(enumerate(single)),))
    assert str(program.spec) == str(other.spec)


def test_all_ways_to_say_sizes():
    def f(x: Any, more: Any, *, z: Any) -> Any:
        return x.sum() + more[0].sum() + more[1]["w"].sum() + z.sum()

    args, kwargs = (data(2, 3), (data(4), {"w": data(5)})), {"z": data(6)}
    for said in (
        {"x": {0: Dim("n")}, "more": ((Dim.DYNAMIC,), {"w": Dim.STATIC}), "z": None},
        [{0: Dim("n"), -1: 3}, (Dim.DYNAMIC, {"w": [5]}), None],
        "f32[n, 3], (f32[s0], {w: f32[5]}), z=f32[6]",
        ParamsSpec.parse("f32[n, 3], (f32[s0], {w: f32[5]}), z=f32[6]"),
    ):
        program = export(f, args, kwargs, dynamic_shapes=said)
        assert str(program.spec) == "f32[n, 3], (f32[s0], {w: f32[5]}), z=f32[6]"
    mixed = export(f, args, kwargs, dynamic_shapes={"x": [Dim.AUTO, Dim("s0")], "more": Dim.AUTO})
    assert str(mixed.spec).startswith("f32[s1, s0], (f32[s2], {w: f32[s3]}), z=f32[6] where")


@pytest.mark.parametrize(
    "said",
    [
        {"y": {0: Dim("n")}},
        ({0: Dim("n")}, None),
        {"x": {2: Dim("n")}},
        {"x": [Dim("n")]},
        {"x": {0: 4}},
        {"x": {0: "n"}},
        3,
    ],
)
def test_dynamic_shapes_that_do_not_fit_are_refused(said: Any):
    refused("C035", lambda: export(lambda x: x, (data(2, 3),), dynamic_shapes=said))


def test_an_example_outside_the_specification_is_refused():
    refused("C022", lambda: export(lambda x: x, (data(2),), dynamic_shapes="f32[n] where n > 2"), "n >= 3")


# Numbers and structures.


def test_numbers_are_inputs_as_far_as_they_only_feed_arithmetic(tmp_path: Path):
    def f(x: Any, n: int, rate: float, flag: bool, limit: float) -> Any:
        total = rate * 2 + 1
        y = x[:n] * total if flag else x
        return {"y": y, "total": total, "n": n + 1, "said": ("a", None, [n])} if limit > 0.5 else y

    program = kept(export(f, (data(6), 2, 0.5, True, 1.0)), tmp_path)
    assert str(program.spec).startswith("f32[s0], int s1, float, True, 1.0 where")
    for n, rate in ((2, 0.5), (0, -1.5), (6, 3.0)):
        assert same(program.module()(data(6), n, rate, True, 1.0), f(data(6), n, rate, True, 1.0))
    exported_again(program, data(6), 2, 0.5, True, 1.0)
    refused("C022", lambda: program.module()(data(6), 2, 0.5, False, 1.0))


def test_expressions_of_numbers_run_no_code():
    text = str(export(lambda x, rate: x * (rate + 1), (data(2), 0.5)))
    from rushlight.export.parse import parse_program

    assert same(parse_program(text, {}, {}).module()(data(2), 2.0), data(2) * 3.0)
    for bad in ("(a1 + __import__('os').getpid())", "(a1).__class__", "[a1]", "a9"):
        told = text.replace("(a1 + 1)", bad)
        assert told != text
        refused("C009", lambda told=told: parse_program(told, {}, {}).module()(data(2), 2.0))


def test_keywords_and_nested_arguments():
    def f(*xs: Any, table: Any) -> Any:
        return [xs[0] + table["b"], xs[1] * table["a"]]

    program = export(f, (data(2), data(3)), {"table": {"a": data(3), "b": data(2)}})
    assert [item.name for item in program.inputs] == ["xs_0", "xs_1", "table_a", "table_b"]
    table = {"b": data(2), "a": data(3)}
    assert same(program.module()(data(2), data(3), table=table), f(data(2), data(3), table=table))


# What a program holds.


class Layers(nn.Module):
    """Tied weights, buffers of both kinds, a constant, and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.token.weight
        self.register_buffer("steps", rl.zeros(()))
        self.register_buffer("mask", rl.ones(4), persistent=False)
        self.shift = [rl.ones(4)]

    def forward(self, tokens: Any) -> Any:
        self.steps.add_(1)
        return self.head(self.token(tokens) * self.mask + self.shift[0])


def test_an_argument_that_is_returned_comes_back_as_a_container(tmp_path: Path):
    x = rl.ones(3)
    program = kept(export(lambda given: (given, given["a"] * 2), ({"a": x},)), tmp_path)
    found, doubled = program.module()({"a": x})
    assert list(found) == ["a"] and same(found["a"], x) and same(doubled, x * 2)


def test_the_state_keeps_names_ties_and_kinds(tmp_path: Path):
    model = Layers()
    tokens = rl.tensor([[1, 2], [3, 6]])
    program = kept(export(model, (tokens,)), tmp_path)
    assert [(item.kind, item.target) for item in program.inputs] == [
        ("parameter", "token.weight"),
        ("buffer", "steps"),
        ("buffer", "mask"),
        ("constant", "constant"),
        ("argument", 0),
    ]
    assert [(item.kind, item.target) for item in program.mutated] == [("buffer", "steps")]
    module = program.module()
    assert list(program.state_dict) == list(module.state_dict()) == list(model.state_dict())
    assert module.head.weight is module.token.weight and len(list(module.parameters())) == 1
    expected = model(tokens)
    assert same(module(tokens), expected) and module.steps.item() == 1
    assert same(module.state_dict(), model.state_dict())
    exported_again(program, tokens)


def test_gradients_flow_as_they_did(tmp_path: Path):
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.GELU(), nn.Linear(8, 2))
    module = kept(export(model, (data(3, 4),)), tmp_path).module()
    for rows in (3, 1, 9):
        for one in (model, module):
            rl.manual_seed(rows)
            one.zero_grad()
            F.mse_loss(one(data(rows, 4)), rl.zeros(rows, 2)).backward()
        assert same([item.grad for item in module.parameters()], [item.grad for item in model.parameters()])


def test_what_is_computed_without_gradients_stays_so(tmp_path: Path):
    def f(x: Any) -> Any:
        with rl.no_grad():
            scale = x.abs().max() + x.reshape(-1)[0]
        return x / scale

    module = kept(export(f, (data(4),)), tmp_path).module()
    found: list[Any] = []
    for one in (f, module):
        x = data(6).requires_grad_()
        one(x).sum().backward()
        found.append(x.grad)
    assert same(*found)


class Cube(rl.autograd.Function):
    """A function with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


def test_functions_with_derivatives_of_their_own_are_what_they_call_without_gradients():
    weight = nn.Linear(2, 2)
    program = export(lambda x: Cube.apply(weight(x)), (data(3, 2),))
    assert [name for name in names_of(program) if name != "linear"] == ["pow", "detach"]
    assert same(program.module()(data(4, 2)).detach(), Cube.apply(weight(data(4, 2))).detach())


def test_arguments_are_written_to_and_returned_as_themselves(tmp_path: Path):
    def f(x: Any, y: Any) -> Any:
        x.mul_(2)
        x[1:].add_(y)
        return x, y, x.view(-1)

    program = kept(export(f, (data(3, 2), data(2))), tmp_path)
    assert [(item.kind, item.target) for item in program.mutated] == [("argument", 0)]
    x, other, y = data(5, 2), data(5, 2), data(2)
    found, wanted = program.module()(x, y), f(other, y)
    assert found[0] is x and found[1] is y and same(found, wanted)
    exported_again(program, data(3, 2), data(2))


def test_random_calls_draw_what_they_drew(tmp_path: Path):
    def f(x: Any) -> Any:
        rl.rand(3)  # draws, although nothing reads it
        y = F.dropout(x, 0.5) + rl.randn(x.shape[0])
        return F.dropout(y, 0.25), rl.rand(2)

    program = kept(export(f, (data(4),)), tmp_path)
    module = program.module()
    for rows in (4, 1, 9):
        rl.manual_seed(7)
        expected = f(data(rows)), rl.rand(2)
        rl.manual_seed(7)
        assert same((module(data(rows)), rl.rand(2)), expected)
    exported_again(program, data(4))


def test_a_program_compiles_to_one_graph_for_all_sizes():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    program = export(model, (data(3, 4),), dynamic_shapes="f32[B, 4]")
    rl.compiler.reset()
    for compiled in (rl.compile(program.module()), rl.compile(program.module(), specs=program.spec)):
        for rows in (3, 0, 1, 17):
            assert same(compiled(data(rows, 4)), model(data(rows, 4)))
    assert rl.compiler.graph_count() == 2


# Before autograd, with operators as they were called.


@pytest.fixture
def doubled():
    operator = define("doubled(Tensor input) -> Tensor", "Twice the input.", facts=Fact.NONDIFFERENTIABLE)
    operator.ref(lambda input: input * 2)
    operator.meta(lambda input: input.type if hasattr(input, "type") else input)
    operator.decompose(lambda input: input + input)
    yield operator
    undefine("doubled")


def branching(operator: Any) -> Any:
    def f(x: Any) -> Any:
        rows = rl.nonzero(x.sum(1) > 0)[:, 0]
        rl.check(rows.shape[0] <= 4, "too many rows")
        y = rl.cond(x.sum() > 0, lambda: operator(x), lambda: x - 1)
        return y, x[rows]

    return f


def positive(rows: int) -> Any:
    return rl.tensor(np.abs(data(rows, 3).numpy()))


def test_control_flow_and_custom_operators_are_single_calls_with_their_lines(doubled: Any, tmp_path: Path):
    program = export(branching(doubled), (positive(3),), dynamic_shapes="f32[n, 3]")
    for one in (program, kept(program, tmp_path)):
        assert names_of(one).count("cond") == 1
        cond = next(call for call in one.graph.calls if call.op.name == "cond")
        assert [call.op.name for call in cond.attr("branches")[0].graph.calls] == ["doubled"]
        assert all(call.frames for call in one.graph.calls if call.op.name != "number")
        inside = cond.attr("branches")[0].graph.calls[0]
        assert [frame.function for frame in inside.frames] == ["<lambda>", "f"]
        assert {frame.function for call in one.graph.calls for frame in call.frames} == {"f"}
        assert "rl.cond" in cond.frames[0].source and cond.frames[0].filename == __file__
        (check,) = [item for item in one.checks if item.message]
        assert check.message == "too many rows" and "rl.check" in check.frame.source
        exported_again(one, positive(3))
        module = one.module()
        for x in (positive(3), -positive(2), positive(0)):
            assert same(module(x), branching(doubled)(x))
        told = refused("R002", lambda module=module: module(positive(5)), "too many rows")
        assert "u0: 5" in told and f"{HERE}:{check.frame.line} in f:  rl.check" in told


def test_a_program_in_primitives(doubled: Any, tmp_path: Path):
    norm, f = nn.LayerNorm(3), branching(doubled)
    program = export(lambda x: f(norm(x).softmax(1) + 1), (positive(3),), dynamic_shapes="f32[n, 3]")
    assert {"layer_norm", "softmax"} <= set(names_of(program))
    primitive = kept(program.run_decompositions(), tmp_path)
    assert not {"layer_norm", "softmax"} & set(names_of(primitive))
    cond = next(call for call in primitive.graph.calls if call.op.name == "cond")
    assert [call.op.name for call in cond.attr("branches")[0].graph.calls] == ["add"]
    assert primitive.spec == program.spec and len(primitive.checks) == len(program.checks)
    exported_again(primitive, positive(3))
    x = positive(3)
    for one, other in zip(primitive.module()(x), program.module()(x), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_an_operator_that_is_not_defined_is_named(doubled: Any, tmp_path: Path):
    save(export(lambda x: doubled(x), (data(3),)), tmp_path / "f.safetensors")
    undefine("doubled")
    try:
        refused("C009", lambda: load(tmp_path / "f.safetensors"), "doubled")
    finally:
        operator = define("doubled(Tensor input) -> Tensor", "Twice the input.")
        operator.meta(lambda input: input)


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_are_single_calls(reverse: bool, tmp_path: Path):
    w = data(3, 3)

    def f(x: Any) -> Any:
        h, ys = rl.scan(lambda h, row: ((h @ w + row).tanh(), h * 2), rl.zeros(3), x, reverse=reverse)
        n, h = rl.while_loop(lambda n, h: h.abs().sum() > 0.1, lambda n, h: (n + 1, h / 2), (0, h))
        return rl.map(lambda row: row.cumsum(0), ys), n, h

    program = kept(export(f, (data(4, 3),)), tmp_path)
    assert [name for name in names_of(program) if name in ("scan", "while_loop")] == ["scan", "while_loop", "scan"]
    for rows in (4, 1, 9):
        assert same(program.module()(data(rows, 3)), f(data(rows, 3)))
    exported_again(program, data(4, 3))


def test_branches_may_give_other_sizes(tmp_path: Path):
    def f(x: Any) -> Any:
        return rl.cond(x.sum() > 0, lambda: x[1:], lambda: x) + 1

    program = kept(export(f, (positive(3),)), tmp_path)
    for x in (positive(4), -positive(4), positive(1)):
        assert same(program.module()(x), f(x))
    exported_again(program, positive(3))


# What a program cannot hold.


class Holder:
    """An object that is no tensor, number or text."""


def test_what_a_program_cannot_hold_is_refused():
    counter = {"calls": 0}

    def counting(x: Any) -> Any:
        counter["calls"] = x.sum()
        return x

    weight = data(3).requires_grad_()

    def trained(x: Any) -> Any:
        (x * weight).sum().backward()
        return x

    holder = Holder()
    told = refused("C034", lambda: export(counting, (data(3),)), "changes")
    assert "counter" in told and counter == {"calls": 0}
    refused("C034", lambda: export(lambda x: holder, (data(3),)), "Holder")
    refused("C034", lambda: export(lambda x: weight * x, (weight,)), "reaches by itself")
    refused("C035", lambda: export(lambda x, h: x, (data(3), holder)), "Holder")
    refused("C002", lambda: export(lambda x: x if x.sum() > 0 else -x, (data(3),)))
    with pytest.raises(RushlightError):
        export(trained, (data(3),))


def test_wrong_calls_say_what_to_write():
    program = export(nn.Linear(2, 3), (rl.ones(1, 2),))
    assert "program.module()(...)" in refused("A006", lambda: program(rl.ones(1, 2)))
    assert "write (x,)" in refused("A001", lambda: export(nn.Linear(2, 3), rl.ones(1, 2)))
    assert "{dim: Dim(name)}" in refused("C035", lambda: export(nn.ReLU(), (rl.ones(1),), dynamic_shapes={"x": None}))


def test_other_files_are_refused(tmp_path: Path):
    path = tmp_path / "f.safetensors"
    rl.save({"x": data(3)}, path)
    refused("P005", lambda: load(path))
    program = export(nn.Linear(3, 2), (data(4, 3),))
    from rushlight.export.parse import parse_program

    tensors, text = dict(program.state.tensors), str(program)
    refused("P002", lambda: parse_program(text, {"weight": tensors["weight"]}, {}), "bias")
    refused("P002", lambda: parse_program(text, {**tensors, "bias": data(3)}, {}), "bias")
    refused("P005", lambda: parse_program(text.replace("export 1", "export 2", 1), tensors, {}))
    for line in range(1, text.count("\n")):
        lines = text.split("\n")
        del lines[line]
        with pytest.raises(RushlightError):
            broken = parse_program("\n".join(lines), tensors, {})
            assert str(broken) == text


def test_ten_thousand_calls_are_shown_with_their_line():
    program = export(lambda x: sum([x] * 50), (data(2),))
    assert len([call for call in program.graph.calls if call.op.name == "add"]) == 50
    assert str(program).count("\nline ") == 1


@pytest.mark.thread("mlx#2596")
@pytest.mark.thread("mlx#2599")
def test_a_scalar_example_says_how_many_dims_there_are():
    program = export(lambda x: x.abs(), (rl.tensor(-2.5),))
    assert program.module()(rl.tensor(-3.0)).item() == 3.0
    refused("C022", lambda: program.module()(data(3)), "argument 0")
    vectors = export(lambda x: (x.abs(), rl.zeros_like(x)), (data(3),))
    for rows in (3, 0, 1, 8):
        assert same(vectors.module()(data(rows)), (data(rows).abs(), rl.zeros(rows)))


class Nested(rl.nn.Module):
    """A branch in a loop, and one behind it."""

    def __init__(self):
        super().__init__()
        self.linear = rl.nn.Linear(3, 3)

    def forward(self, x):
        def step(carried, row):
            carried = rl.cond(carried.sum() > 0, lambda: self.linear(carried).tanh(), lambda: carried * row)
            return carried, carried.exp()

        last, rows = rl.scan(step, x[0], x)
        return rl.cond(rows.sum() > 5, lambda: last * 2, lambda: last - 1) + rows.sum(0)


@pytest.mark.row("2.11")
def test_control_flow_is_one_call_each_and_is_differentiated_afterwards():
    rl.manual_seed(0)
    model, x = Nested(), rl.randn(4, 3)
    program = rl.export.export(model, (x,))
    levels = [program.graph, *program.graph.inner]
    assert [[call.op.name for call in graph.calls if inner_of(call)] for graph in levels] == [
        ["scan", "cond"],
        ["cond"],
        [],
        [],
    ]
    gradients = []
    for function in (model, program.module()):
        leaf = x.clone().requires_grad_()
        function.zero_grad()
        function(leaf).sum().backward()
        gradients.append([one.grad.tolist() for one in (leaf, *function.parameters())])
    assert gradients[0] == gradients[1]
