"""Causes of the errors of compiled functions."""

from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from errorcases import triggers
from rushlight.compiler import mark_dynamic, mark_unbacked
from rushlight.eager.interception import TorchDispatchMode
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS, define, undefine
from rushlight.schedule.lower.lowering import lower_graph
from rushlight.support import settings


class Batch:
    def __init__(self, rows):
        self.rows = rows


@triggers("C001")
def backend_is_unknown():
    rl.compile(lambda x: x + 1, backend="tvm")


@triggers("C002")
def branch_asks_for_a_value():
    @rl.compile(fullgraph=True)
    def magnitude(x):
        return x if x.sum() > 0 else -x

    magnitude(rl.ones(3))


@triggers("C002", "item")
def branch_asks_for_an_item():
    @rl.compile(fullgraph=True)
    def head(lengths, x):
        longest = lengths.max().item()
        return x[:longest] if longest > x.shape[0] else x

    head(rl.tensor([2, 3]), rl.ones(4))


@triggers("C002", "argument")
def loop_asks_for_an_argument():
    @rl.compile(fullgraph=True)
    def repeated(x, times):
        return [x + step for step in range(times.item())]

    repeated(rl.ones(3), rl.tensor(2))


@triggers("C002", "mask")
def branch_asks_for_the_number_of_elements():
    @rl.compile(fullgraph=True)
    def kept(x):
        chosen = x[x > 0]
        return chosen if chosen.shape[0] == 3 else x

    kept(rl.ones(3))


@triggers("C002", "mark")
def branch_asks_for_an_unbacked_size():
    @rl.compile(fullgraph=True)
    def padded(x):
        return x if x.shape[0] > 8 else x.sum()

    x = rl.ones(9)
    mark_unbacked(x, 0)
    padded(x)


@triggers("C002", "specification")
def branch_asks_for_a_specified_size():
    @rl.compile(specs="f32[B, T] where B >= 2")
    def folded(x):
        return x if x.shape[0] == x.shape[1] else x.sum()

    folded(rl.ones(2, 3))


@triggers("C002", "float")
def program_asks_for_a_float():
    @rl.compile(fullgraph=True)
    def scaled(x):
        total = x.sum()
        return x * float(total)

    scaled(rl.ones(3))


@triggers("C002", "array")
def program_asks_for_an_array():
    @rl.compile(fullgraph=True)
    def listed(x):
        return np.asarray(x).max()

    listed(rl.ones(3))


@triggers("C003")
def operator_was_not_decomposed():
    text = "g(%x: f32[4], %w: f32[2]) {\n  %0 = outer(%x, %w) : f32[4, 2]\n  return %0\n}"
    lower_graph(parse_graph(text, OPERATORS))


@triggers("C010")
def placeholder_leaves_in_an_exception():
    @rl.compile(fullgraph=True)
    def unfinished(x):
        raise LookupError(x * 2)

    try:
        unfinished(rl.ones(3))
    except LookupError as error:
        error.args[0].tolist()


@triggers("C012")
def captured_tensors_share_storage():
    weight, part = rl.ones(6), rl.ones(4)
    part.data = weight[2:]

    @rl.compile(fullgraph=True)
    def scaled(x):
        return x * weight.sum() * part

    scaled(rl.ones(4))


@triggers("C013")
def write_to_what_may_be_a_copy():
    @rl.compile(fullgraph=True)
    def written(x):
        rows = x.reshape(2, -1)
        rows.zero_()
        return x

    turned = rl.ones(4, 3).T
    for dim in range(2):
        mark_unbacked(turned, dim)
    written(turned)


@triggers("C014")
def result_is_an_object():
    rl.export.export(lambda x: Batch(x * 2), (rl.ones(3),))


@triggers("C015")
def edited_stage_breaks_a_rule(tmp_path: Path):
    def step(x):
        return x.exp() + 1

    with settings.override(dump=str(tmp_path / "dump"), cache_dir=str(tmp_path / "cache")):
        rl.compile(step, fullgraph=True)(rl.ones(3))
    for captured in (tmp_path / "dump").glob("*/00-captured.ir"):
        text = captured.read_text()
        if text.startswith("step("):
            edited = tmp_path / "edit" / captured.parent.name / "01-primitives.ir"
            edited.parent.mkdir(parents=True)
            edited.write_text((captured.parent / "01-primitives.ir").read_text().replace(" : f32[", " : f64[", 1))
    with settings.override(edit=str(tmp_path / "edit")):
        rl.compile(step, fullgraph=True)(rl.ones(3))


@triggers("C016")
def batch_norm_trains_frozen():
    norm = rl.nn.BatchNorm1d(3)
    rl.compile(norm, freeze=True)(rl.ones(2, 3))


@triggers("C003", "list")
def list_grows_while_traced():
    kept = []

    @rl.compile(fullgraph=True)
    def step(x):
        kept.insert(0, [x * 2])
        return x + 1

    try:
        step(rl.ones(3))
    finally:
        assert kept == []


@triggers("C008")
def shapes_of_every_rank():
    @rl.compile
    def double(x):
        return x * 2

    for rank in range(9):
        double(rl.ones(*[2] * rank))


@triggers("X002", users_line=False)
def rule_does_not_fit_its_schema(request: pytest.FixtureRequest):
    operator = define("blend(Tensor a, Tensor b) -> Tensor", "A sum.")
    request.addfinalizer(lambda: undefine("blend"))
    operator.meta(lambda a, c: a)


@triggers("X002", "twice", users_line=False)
def operator_is_defined_twice():
    define("add(Tensor a, Tensor b) -> Tensor", "A sum.")


@triggers("R001")
def logarithm_of_a_negative_number():
    @rl.compile
    def entropy(p):
        logarithm = (p - 2).log()
        return (p * logarithm).sum()

    with settings.override(nan_asserts=True):
        entropy(rl.ones(3))


@triggers("C011")
def size_that_was_marked_dynamic_is_fixed():
    def three(x):
        return x + 1 if x.shape[0] == 3 else x

    x = rl.ones(3, 2)
    mark_dynamic(x, 0)
    rl.compile(three)(x)


@triggers("C034")
def exported_function_counts_its_calls():
    state = {"seen": rl.zeros(())}

    def total(x):
        state["seen"] = x.sum()
        return x + 1

    rl.export.export(total, (rl.ones(3),))


@triggers("C035")
def exported_dim_is_not_there():
    rl.export.export(lambda x: x + 1, (rl.ones(3),), dynamic_shapes={"x": {1: rl.export.Dim("columns")}})


@triggers("R002", "exported")
def exported_check_fails_under_its_own_line():
    def chosen(x):
        rows = rl.nonzero(x > 0)[:, 0]
        rl.check(rows.shape[0] <= 2, "too many rows")
        return x[rows]

    program = rl.export.export(chosen, (rl.ones(2),))
    program.module()(rl.ones(3))


@triggers("C022", "exported")
def exported_program_is_called_with_other_sizes():
    program = rl.export.export(lambda x: x * 2 if x.shape[0] < 8 else x, (rl.ones(2),))
    program.module()(rl.ones(9))


@triggers("C031")
def branch_writes_to_its_operand():
    @rl.compile(fullgraph=True)
    def shifted(x):
        return rl.cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x - 1, (x,))

    shifted(rl.ones(3))


@triggers("C032")
def branch_draws_random_numbers():
    @rl.compile(fullgraph=True)
    def noisy(x):
        return rl.cond(x.sum() > 0, lambda: x + rl.rand(3), lambda: x)

    noisy(rl.ones(3))


@triggers("C033")
def branches_return_other_dtypes():
    @rl.compile(fullgraph=True)
    def rounded(x):
        return rl.cond(x.sum() > 0, lambda: x, lambda: x.int())

    rounded(rl.ones(3))


@triggers("C033", "structure")
def branches_return_other_structures():
    @rl.compile(fullgraph=True)
    def parts(x):
        return rl.cond(x.sum() > 0, lambda: (x, x + 1), lambda: [x, x])

    parts(rl.ones(3))


@triggers("C036")
def compiled_under_a_mode():
    def doubled(x):
        with TorchDispatchMode():
            return x * 2

    rl.compile(doubled, fullgraph=True)(rl.ones(2))


@triggers("C037")
def backend_gives_no_function():
    rl.compile(lambda x: x + 1, backend=lambda graph, inputs: None)(rl.ones(2))


@triggers("C037", "count")
def backend_gives_other_results():
    rl.compile(lambda x: x + 1, backend=lambda graph, inputs: lambda x: (x, x))(rl.ones(2))


@triggers("C037", "kind")
def backend_gives_results_of_another_kind():
    rl.compile(lambda x: x + 1, backend=lambda graph, inputs: lambda x: x[:1])(rl.ones(2))


@triggers("C038")
def node_is_erased_that_others_read():
    graph = rl.fx.symbolic_trace(lambda x: rl.relu(x) + 1).graph
    graph.erase_node(next(node for node in graph.nodes if node.name == "relu"))


@triggers("C039")
def disabled_function_in_one_graph():
    @rl.compiler.disable(reason="it keeps a log")
    def logged(x):
        return x

    rl.compile(lambda x: logged(x) + 1, fullgraph=True)(rl.ones(2))


@triggers("C042")
def leaf_is_made_and_returned():
    rl.compile(lambda: rl.ones(2, requires_grad=True), fullgraph=True)()


@triggers("C040")
def stance_forbids_compiling():
    double = rl.compile(lambda x: x * 2)
    with rl.compiler.set_stance("fail_on_recompile"):
        double(rl.ones(2))


@triggers("C041")
def generator_in_one_graph():
    def rows(x):
        yield from x

    rl.compile(rows, fullgraph=True)
