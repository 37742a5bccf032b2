"""Every program, small: in Rushlight it gives what numpy gives in float64, eagerly and compiled."""

from dataclasses import replace

import numpy as np
import pytest

import rushlight as rl
from rushlight.bench import cases_eager, cases_layers, cases_models, cases_ops, cases_tracing
from rushlight.bench.catalog import CASES
from rushlight.bench.checking import reference, worst_difference
from rushlight.bench.hosts import pytorch as host_pytorch
from rushlight.bench.hosts.numpy import Numpy
from rushlight.bench.overhead.cases import add
from rushlight.bench.programs import numpy_ops, pytorch_ops
from rushlight.bench.records import TOLERANCES, Case, rounded
from rushlight.bench.serving import Absent

TANH = cases_models.Transformer(2, 2, 16, 50, 12, "tanh")
SMALL = [
    cases_ops.gemm(5, 7, 3, "gemm"),
    cases_ops.gemm(8, 16, 8, "gemm-bf16", "bfloat16"),
    cases_ops.pointwise(5, 8),
    cases_ops.softmax(5, 9),
    cases_ops.layer_norm(5, 8),
    cases_ops.layer_norm_gradients(5, 8),
    cases_ops.rms_norm(5, 8),
    cases_ops.cross_entropy(6, 11),
    cases_ops.sum_rows(7, 5),
    cases_ops.convolution(4, 6),
    cases_ops.convolution(6, 5, groups=3),
    cases_ops.convolution(3, 7, groups=3),
    add(10),
    cases_tracing.unbind_split_flip_cat(2, 3),
    cases_tracing.sum_items(5),
    cases_tracing.join_selected(3),
    cases_models.gpt_step("gpt-step", TANH, 2, 7, 1e-3),
    cases_models.gpt_step("demo-step", TANH._replace(vocabulary=256, gelu="erf"), 2, 7, 1e-3),
    cases_models.gpt_forward("gpt-forward", TANH, 7),
    cases_models.mlp_step((12, 8, 4), 6, 0.1),
    cases_models.resnet(32),
]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_rushlight_agrees_with_numpy(case: Case, mode: str):
    host = host_pytorch.make_host("rushlight", mode, rl.get_num_threads())
    inputs = case.inputs()
    work = host.prepare(case, inputs)
    found = [array for _ in range(case.calls) for array in host.arrays(work())]
    worst, where = worst_difference(found, reference(case, inputs))
    assert worst <= TOLERANCES[case.dtype] <= 1e-2, where


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Common operators are called on 256 elements in place of a million."""
    for name, size in {"SIDE": 16, "COUNT": 256, "BOUNDARIES": 9, "KINDS": 40}.items():
        monkeypatch.setattr(cases_eager, name, size)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("case", cases_eager.OPERATORS, ids=lambda case: case.name)
def test_common_operators_agree_with_numpy(case: Case):
    test_rushlight_agrees_with_numpy(case, "eager")


SMALL_LAYERS = [
    *[cases_layers.recurrent(kind, 5, 3, 4) for kind in cases_layers.GATES],
    *[cases_layers.transform(name, 5, 4, points, 1.0) for name, points in (("vmap", 6), ("jacrev", 1), ("hessian", 1))],
]


@pytest.mark.parametrize("case", SMALL_LAYERS, ids=lambda case: case.name)
def test_layers_and_transforms_agree_with_numpy(case: Case):
    for mode in ("eager", "compiled"):
        test_rushlight_agrees_with_numpy(case, mode)


def test_common_operators_are_fifty_on_as_many_elements_each():
    assert len(cases_eager.OPERATORS) == 50
    assert {"sort", "cumsum"} <= {case.program for case in cases_eager.OPERATORS}
    for case in cases_eager.OPERATORS:
        assert case.contestants == ("rushlight-eager", "torch")
        # Two halves are joined.
        assert max([value.size for value in case.inputs().values()]) in (2**20, 2**19), case.name


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("backward", [False, True])
def test_attention_agrees_with_numpy(backward: bool, mode: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cases_ops, "ATTENTION", (1, 2, 9, 4))
    test_rushlight_agrees_with_numpy(cases_ops.attention(backward), mode)


def test_decoding_agrees_with_numpy():
    test_rushlight_agrees_with_numpy(cases_models.gpt_decode("gpt-decode", TANH, 5), "eager")


def test_prompts_of_all_lengths_share_one_graph():
    rl.compiler.reset()
    case = cases_models.gpt_lengths("small", TANH, [1, 2, 3, 7, 12], 2)
    assert case.later == 9
    inputs = case.inputs()
    eager, compiled = [
        host_pytorch.make_host("rushlight", mode, 1).prepare(case, inputs) for mode in ("eager", "compiled")
    ]
    results = [(eager().numpy(), compiled().numpy()) for _ in range(1 + case.later)]
    assert all(one.shape == (1, TANH.vocabulary) and np.array_equal(one, other) for one, other in results)
    first, second, third = [one for one, _ in results[:3]]
    assert np.array_equal(first, second) and not np.array_equal(second, third)
    assert rl.compiler.graph_count() == 1


def test_a_models_work_is_what_its_sizes_say():
    step, decode = CASES["gpt2-step-2x256"], CASES["gpt2-decode-256"]
    assert cases_models.GPT2.parameters == 124_439_808
    assert step.flops == pytest.approx(6 * 124e6 * 512, rel=0.05)
    assert decode.bytes == pytest.approx(4 * 124e6, rel=0.05)
    assert CASES["resnet18-224"].flops == pytest.approx(3.63e9, rel=0.01)


def test_every_case_states_its_work_and_is_written_in_numpy_and_in_pytorchs_api():
    assert {"gemm-1024", "gemm-bf16-2048", "gelu-chain-4096x4096", "add-2-tensors-of-4"} <= set(CASES)
    for case in CASES.values():
        assert (case.flops > 0) == (case.bytes > 0) == (case.family != "tracing")
        assert case.family in ("ops", "eager", "layers", "models", "overhead", "lengths", "tracing")
        assert case.dtype in TOLERANCES


def test_inputs_are_the_same_every_time():
    case = cases_ops.layer_norm_gradients(3, 4)
    first, second = case.inputs(), case.inputs()
    assert list(first) == ["x", "w", "b", "g"]
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_inputs_of_bfloat16_cases_are_bfloat16_values():
    inputs = cases_ops.gemm(4, 4, 4, "small", "bfloat16").inputs()
    assert not np.any(inputs["a"].view(np.uint32) & 0xFFFF)
    assert rounded(np.float32([1 + 2**-8, 1 + 3 * 2**-8, -3.0])).tolist() == [1.0, 1 + 2**-6, -3.0]


def test_numpy_is_not_measured_where_that_would_be_unfair():
    with pytest.raises(Absent, match="bfloat16"):
        Numpy().prepare(SMALL[1], SMALL[1].inputs())
    with pytest.raises(Absent, match="error function"):
        Numpy().prepare(SMALL[2], SMALL[2].inputs())
    assert set(numpy_ops.UNFAIR) <= set(numpy_ops.FUNCTIONS)


def test_products_of_int8_are_exact():
    case = cases_ops.int8_gemm(6)
    inputs = case.inputs()
    assert np.array_equal(reference(case, inputs)[0], inputs["a"].astype(np.int64) @ inputs["b"].astype(np.int64))


def test_a_program_that_nobody_wrote_is_absent():
    host = host_pytorch.make_host("rushlight", "eager", rl.get_num_threads())
    with pytest.raises(Absent):
        host.prepare(replace(SMALL[0], program="fold_laundry"), {})


def test_what_is_compiled_depends_on_what_a_framework_can_compile():
    def function() -> None: ...

    ours = host_pytorch.make_modes("rushlight", "compiled")
    theirs = host_pytorch.make_modes("torch", "compiled")
    assert ours.part(function) is function
    assert ours.step(function) is not function
    assert theirs.step(function) is function
    assert theirs.part(function) is not function
    assert host_pytorch.make_modes("torch", "eager") == pytorch_ops.Modes(*[host_pytorch.as_is] * 5)
