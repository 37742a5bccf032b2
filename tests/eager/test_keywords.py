"""Arguments by name: each is used or refused, and sizes may be given as `size=`."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.autograd.check import gradcheck, gradgradcheck
from rushlight.support.errors import RushlightError

SOURCES = Path(rl.__file__).parent
# Internal functions that are called through a signature which others of their kind need.
INTERFACES = {
    "bench/results.py ask",
    "eager/interchange.py __dlpack__",
    "fx/graph_module.py __new__",  # `__init__` takes them
    "distributed/fsdp/wrap.py __call__",
    "distributed/optim/divided.py join_hook",
    "distributed/fsdp/wrap.py always_wrap_policy",
    "fx/immutable_collections.py _refuse",
    "utils/flop_counter.py _of_attention",
    "utils/flop_counter.py _of_convolution",
    "utils/flop_counter.py _of_filters",
    "utils/flop_counter.py _of_product",
    "utils/flop_counter.py _of_transposed",
    "nn/tree/backward_hooks.py forward",
}
# What the alias lets pass, as docs/torch-alias.md says: options have no meaning where nothing is compiled or saved.
PASSING = {
    "overrides.py override",  # answers -1 whatever it is given, as documented
    "torch/modules/jit.py freeze",
    "torch/modules/jit.py optimize_for_inference",
    "torch/modules/jit.py script",
    "torch/modules/jit.py trace",
    "torch/modules/jit.py trace_module",
    "utils/checkpoint/selective.py listed_policy",  # the operator alone decides
    "torch/modules/utils/model_zoo.py tqdm",
    "torch/passing.py __call__",
}
X = rl.arange(6.0).reshape(2, 3)

SIZED = {
    "empty": rl.empty,
    "zeros": rl.zeros,
    "ones": rl.ones,
    "rand": rl.rand,
    "randn": rl.randn,
    "full": lambda **named: rl.full(fill_value=1, **named),
    "randint": lambda **named: rl.randint(5, **named),
    "new_zeros": X.new_zeros,
    "new_ones": X.new_ones,
    "new_empty": X.new_empty,
    "new_full": lambda **named: X.new_full(fill_value=1, **named),
}
OTHERS = {
    "arange": lambda **named: rl.arange(3, **named),
    "linspace": lambda **named: rl.linspace(0, 1, 3, **named),
    "eye": lambda **named: rl.eye(3, **named),
    "randperm": lambda **named: rl.randperm(3, **named),
    "scalar_tensor": lambda **named: rl.scalar_tensor(3, **named),
    "empty_like": lambda **named: rl.empty_like(X, **named),
    "zeros_like": lambda **named: rl.zeros_like(X, **named),
    "ones_like": lambda **named: rl.ones_like(X, **named),
    "full_like": lambda **named: rl.full_like(X, 1, **named),
    "rand_like": lambda **named: rl.rand_like(X, **named),
    "randn_like": lambda **named: rl.randn_like(X, **named),
    "to": X.to,
    "Module.to": lambda **named: rl.nn.Linear(1, 1).to(**named),
}


def failure(function, *args, **named):
    with pytest.raises(RushlightError) as error:
        function(*args, **named)
    return error.value


@pytest.mark.parametrize("name", SIZED)
def test_a_size_is_given_by_name(name):
    assert SIZED[name](size=(2, 3)).shape == (2, 3)
    assert SIZED[name](size=[]).shape == ()
    assert failure(SIZED[name], size="ab").code == "A001"


@pytest.mark.parametrize("name", [*SIZED, *OTHERS])
def test_an_unknown_argument_is_refused_with_the_nearest_name(name):
    function, given = (SIZED[name], {"size": (2,)}) if name in SIZED else (OTHERS[name], {})
    error = failure(function, **given, dtyp=rl.int64)
    assert error.code == "A003" and isinstance(error, TypeError) and "did you mean dtype?" in str(error)


@pytest.mark.parametrize("name", [*SIZED, *OTHERS])
def test_what_changes_nothing_here_may_be_said(name):
    function, given = (SIZED[name], {"size": (2,)}) if name in SIZED else (OTHERS[name], {})
    word = "non_blocking" if name.endswith("to") else "pin_memory"
    function(**given, memory_format=None, **{word: True})
    assert failure(function, **given, memory_format="channels_last").code in ("A001", "A006")


def test_a_size_is_given_once():
    assert failure(rl.zeros, 2, size=(2,)).code == "A003"
    assert failure(rl.randint, 1, 5, (1,), size=(1,)).code == "A003"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((5, (9,)), {}),
        ((5,), {"size": (9,)}),
        ((), {"high": 5, "size": (9,)}),
        ((0, 5, (9,)), {}),
        ((0,), {"high": 5, "size": (9,)}),
        ((), {"low": 0, "high": 5, "size": (9,)}),
        ((0, 5), {"size": (9,)}),
    ],
)
def test_randint_takes_its_arguments_by_name(args, named):
    rl.manual_seed(3)
    expected = rl.randint(0, 5, (9,)).tolist()
    rl.manual_seed(3)
    assert rl.randint(*args, **named).tolist() == expected


def test_to_takes_its_switches_by_position():
    assert X.to(rl.float32, False, False) is X and X.to(other=X) is X
    copied = X.to(rl.float32, False, True)
    assert copied is not X and copied.data_ptr() != X.data_ptr() and copied.tolist() == X.tolist()
    assert failure(X.to, rl.float32, False, True, False).code == "A003"


@pytest.mark.parametrize("method", [X.clone, X.contiguous, X.is_contiguous])
def test_memory_formats_are_objects(method):
    assert method(memory_format=None) is not None
    assert failure(method, memory_format="channels_last").code == "A001"


def test_pythons_types_are_dtypes_of_their_own_width():
    assert rl.zeros(1, dtype=float).dtype is rl.float64 and X.to(float).dtype is rl.float64
    assert rl.zeros(1, dtype=complex).dtype is rl.complex128
    assert rl.zeros(1, dtype=int).dtype is rl.int64 and rl.zeros(1, dtype=bool).dtype is rl.bool
    assert rl.zeros(1, dtype=np.float16).dtype is rl.float16


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_checks_of_gradients_that_are_not_there_are_refused(check):
    x = rl.ones(2, dtype=rl.float64, requires_grad=True)
    assert check(lambda x: x * x, (x,), fast_mode=True, nondet_tol=1e-3, check_batched_grad=False)
    assert failure(check, lambda x: x * x, (x,), check_fwd_over_rev=True).code == "A006"
    assert failure(check, lambda x: x * x, (x,), fast=True).code == "A003"


def keywords_of(tree):
    """Give each function that takes further keywords, with their name, and the names that its body reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None:
            read = {part.id for line in node.body for part in ast.walk(line) if isinstance(part, ast.Name)}
            yield node, node.args.kwarg.arg, read


def test_no_function_takes_keywords_and_drops_them():
    found, dropped = 0, []
    for path in sorted(SOURCES.rglob("*.py")):
        for node, name, read in keywords_of(ast.parse(path.read_text(encoding="utf-8"))):
            found += 1
            only_raises = all(isinstance(line, ast.Expr | ast.Raise) for line in node.body)
            if name not in read and not only_raises:
                dropped.append(f"{path.relative_to(SOURCES)} {node.name}")
    assert found > 20
    assert set(dropped) == INTERFACES | PASSING, dropped


def test_the_signatures_of_like_functions_name_their_tensor_as_pytorch_does():
    for function in (rl.zeros_like, rl.ones_like, rl.empty_like, rl.full_like, rl.rand_like, rl.randn_like):
        assert next(iter(inspect.signature(function).parameters)) == "input"
        assert failure(function, 2.0, *([1] if function is rl.full_like else [])).code == "A001"
