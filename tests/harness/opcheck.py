"""Checks that an operator's rules agree: types, loops and decompositions with meaning, gradients with differences.

`World` runs operators on numpy arrays: by their `ref`, by their `lower` (interpreted bit for bit), or by decomposing as
far as possible, and keeps a tape on which gradients, and gradients of gradients, are taken by the operators' `vjp`s.
"""

from __future__ import annotations

import contextlib
import itertools

import ml_dtypes
import numpy as np
import pytest

from rushlight.ir.dtype import Kind, float64, from_numpy_dtype
from rushlight.ir.graph import number_dtype
from rushlight.ir.interpret import interpret
from rushlight.ir.type import CPU, TensorType
from rushlight.ir.value import Value
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact, Sample
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope, evaluate

NUMBERS = (bool, int, float, complex)


class Eager(Value):
    """An array in a world; `weak` ones hold a Python number."""

    __slots__ = ("array", "type", "world")

    def __init__(self, world, array, type_=None):
        self.world = world
        self.array = array
        self.type = type_ or type_of(array)

    def apply(self, op, args, attrs):
        return self.world.apply(op, args, attrs)

    @property
    def shape(self):
        return self.type.shape

    @property
    def strides(self):
        return self.type.strides

    @property
    def dtype(self):
        return self.type.dtype

    @property
    def device(self):
        return CPU


def type_of(array):
    """The TensorType of an array (with its strides) or of a Python number (weak)."""
    if type(array) in NUMBERS:
        return TensorType((), number_dtype(array), CPU, weak=True)
    array = np.asarray(array)
    strides = tuple(step // array.itemsize for step in array.strides)
    return TensorType(array.shape, from_numpy_dtype(array.dtype), CPU, strides)


class World:
    """`by`: "ref", "lower" or "decompose" (composites by their parts, primitives by ref)."""

    def __init__(self, by="ref", tape=False):
        self.by = by
        self.tape = [] if tape else None
        self.seen = set()

    def lift(self, arg):
        if isinstance(arg, (tuple, list)):
            return tuple(self.lift(item) for item in arg)
        if arg is None or isinstance(arg, (Eager, *NUMBERS)):
            return arg
        return Eager(self, np.asarray(arg))

    def apply(self, op, args, attrs):
        self.seen.add(op.name)
        composite = op.lower_rule is None and op.decompose_rule is not None
        expand = composite and (op.ref_rule is None or self.by != "ref")
        cut = Fact.NONDIFFERENTIABLE in op.facts
        recorded = self.tape is not None and (op.vjp_rule is not None or cut)
        if self.tape is not None and op.vjp_rule is None and op.decompose_rule is not None:
            return op.decompose_rule(**op.named(args, attrs))
        if expand:
            tape, self.tape = self.tape, None
            try:
                out = op.decompose_rule(**op.named(args, attrs))
            finally:
                self.tape = tape
        else:
            out = self.compute(op, args, attrs)
        if recorded:
            if isinstance(out, Eager) and any(out is arg for arg in args):
                out = Eager(self, out.array, out.type)
            self.tape.append((op, args, dict(attrs), out))
        return out

    def compute(self, op, args, attrs):
        arrays = nested(args, lambda item: item.array if isinstance(item, Eager) else item)
        types = nested(args, lambda item: item.type if isinstance(item, Eager) else type_of(item))
        inferred = op.infer(types, attrs)
        if self.by == "lower" and op.lower_rule is not None:
            results = interpret(lowering(op), types, arrays, inferred, attrs)
        else:
            results = op.ref_rule(**op.named(arrays, attrs))
        if not isinstance(inferred, tuple):
            return self.result(op, results, inferred)
        return tuple(self.result(op, *pair) for pair in zip(results, inferred, strict=True))

    def result(self, op, array, type_):
        array = np.asarray(array)
        assert array.shape == type_.shape, f"{op.name}: shape {array.shape}, meta says {type_.shape}"
        assert array.dtype == type_.dtype.numpy, f"{op.name}: dtype {array.dtype}, meta says {type_.dtype.name}"
        return Eager(self, array.item() if type_.weak else array, type_)

    def run(self, op, sample):
        """The operator on a sample's arguments; returns (operands, attributes, result)."""
        operands, attrs = op.bind(sample.args, sample.kwargs)
        operands = tuple(self.lift(item) for item in operands)
        return operands, attrs, self.apply(op, operands, attrs)

    def is_differentiable(self, output):
        """Whether it is floating-point and no operator without a gradient made it."""
        made_by = [op for op, _, _, out in self.tape if any(item is output for item in outputs_of(out))]
        cut = any(Fact.NONDIFFERENTIABLE in op.facts for op in made_by)
        return output.dtype.kind is Kind.FLOAT and not cut and bool(made_by)

    def backward(self, outputs, grads):
        """Gradients of everything on the tape, by id of the Eager."""
        found = {}
        for output, grad in zip(outputs, grads, strict=True):
            found[id(output)] = grad
        for op, args, attrs, out in reversed(list(self.tape)):
            outs = out if isinstance(out, tuple) else (out,)
            incoming = tuple(found.get(id(item)) for item in outs)
            if all(item is None for item in incoming) or Fact.NONDIFFERENTIABLE in op.facts:
                continue
            names = {result.name: item for result, item in zip(op.schema.results, outs, strict=False)}
            names.update(op.named(args, attrs))
            saved = {name: names[name] for name in op.vjp_needs}
            given = op.vjp_rule(incoming if isinstance(out, tuple) else incoming[0], **saved)
            given = given if isinstance(given, tuple) else (given,)
            assert len(given) == len(args), f"{op.name}: {len(given)} gradients for {len(args)} operands"
            for arg, grad in zip(args, given, strict=True):
                self.accumulate(op, found, arg, grad)
        return found

    def accumulate(self, op, found, arg, grad):
        if isinstance(arg, tuple):
            for item, part in zip(arg, grad or itertools.repeat(None), strict=False):
                self.accumulate(op, found, item, part)
            return
        if grad is None or not isinstance(arg, Eager):
            return
        assert grad.shape == arg.shape, f"{op.name}: a gradient of shape {grad.shape} for an operand of {arg.shape}"
        assert grad.dtype is arg.dtype, f"{op.name}: a {grad.dtype.name} gradient for a {arg.dtype.name} operand"
        found[id(arg)] = found[id(arg)] + grad if id(arg) in found else grad


def nested(items, function):
    return tuple(
        None if item is None else nested(item, function) if isinstance(item, tuple) else function(item)
        for item in items
    )


def lowering(op):
    """The lowering rule with operands by position; their names may stand after attributes in the schema."""
    return lambda at, *operands, **attrs: op.lower_rule(at, **op.named(operands, attrs))


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


def samples_of(op):
    """(position, Sample) pairs of an operator."""
    rng = np.random.default_rng(0)
    return list(enumerate(op.samples_rule(rng)))


def assert_close(actual, expected, what, rtol=2e-5, atol=1e-6):
    if np.asarray(expected).dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=what)
    else:
        wide = np.complex128 if np.asarray(expected).dtype.kind == "c" else np.float64
        actual, expected = np.asarray(actual, wide), np.asarray(expected, wide)
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=what, equal_nan=True)


def check_sample(op, sample):
    """Meta against ref, loops against ref, the decomposition against ref, and the same with symbolic sizes."""
    _, _, meaning = World("ref").run(op, sample)
    for by in ("lower", "decompose"):
        _, _, found = World(by).run(op, sample)
        for actual, expected in zip(outputs_of(found), outputs_of(meaning), strict=True):
            assert actual.shape == expected.shape
            assert actual.dtype is expected.dtype, f"{op.name} by {by}: {actual.dtype} instead of {expected.dtype}"
            assert_close(actual.array, expected.array, f"{op.name} by {by}")
    check_symbolic(op, sample, meaning)


def check_symbolic(op, sample, meaning):
    """Types, and loops, with every size above 1 a symbol of its own."""
    operands, attrs = op.bind(sample.args, sample.kwargs)
    scope, values = Scope(), {}
    types = nested(operands, lambda item: symbolic_type(item, scope, values))
    inferred = op.infer(types, attrs)
    for type_, expected in zip(outputs_of(inferred), outputs_of(meaning), strict=True):
        shape = tuple(evaluate(scope.resolve(size), values) for size in type_.shape)
        assert shape == expected.shape, f"{op.name}: symbolic meta says {type_.shape} = {shape}"
        assert type_.dtype is expected.dtype
    if op.lower_rule is not None:
        arrays = nested(operands, lambda item: item if type(item) in NUMBERS else np.asarray(item))
        found = interpret(lowering(op), types, arrays, inferred, attrs, values)
        for actual, expected in zip(outputs_of(found), outputs_of(meaning), strict=True):
            assert_close(actual, expected.array, f"{op.name}: symbolic lowering")


def symbolic_type(item, scope, values):
    concrete = type_of(item)
    if concrete.weak:
        return concrete
    shape = []
    for size in concrete.shape:
        if size > 1:
            symbol = scope.symbol(hint=size, lower=0)
            values[symbol] = size
            size = symbol
        shape.append(size)
    return TensorType(tuple(shape), concrete.dtype)


def check_gradients(op, sample, order=1, fixed=()):
    """The gradient, and with order 2 the gradient of the gradient, against central differences in float64.

    `fixed` names operands that have no gradient.
    """
    world = World("ref", tape=True)
    operands, attrs = op.bind(sample.args, sample.kwargs)
    leaves = []

    def wide(item, leaf=True):
        if isinstance(item, (tuple, list)):
            return tuple(wide(part, leaf) for part in item)
        if item is None or type(item) in NUMBERS:
            return item
        array = np.asarray(item)
        if array.dtype.kind != "f":
            return Eager(world, array)
        found = Eager(world, array.astype(np.float64))
        if leaf:
            leaves.append(found)
        return found

    names = [parameter.name for parameter in op.schema.operands]
    operands = tuple(wide(item, name not in fixed) for name, item in zip(names, operands, strict=True))
    if "dtype" in attrs and attrs["dtype"] is not None:
        attrs["dtype"] = float64 if attrs["dtype"].kind is Kind.FLOAT else attrs["dtype"]
    rng = np.random.default_rng(1)
    directions = [rng.standard_normal(leaf.shape) for leaf in leaves]

    weights = []

    def scalar_of():
        outs = [out for out in outputs_of(world.apply(op, operands, attrs)) if world.is_differentiable(out)]
        if not weights:
            weights.extend(np.random.default_rng(2).standard_normal(out.shape) for out in outs)
        return outs

    def gradient():
        found = world.backward(scalar_of(), [Eager(world, weight) for weight in weights])
        return [found.get(id(leaf)) for leaf in leaves]

    def value():
        outs = scalar_of()
        return sum(float(np.sum(out.array * weight)) for out, weight in zip(outs, weights, strict=True))

    check_directions(op, leaves, directions, value, gradient, "gradient")
    if order == 2:
        check_second_order(op, world, leaves, directions, gradient)
    return leaves


def check_second_order(op, world, leaves, directions, gradient):
    seeds = [np.random.default_rng(3).standard_normal(leaf.shape) for leaf in leaves]

    def value():
        world.tape.clear()
        grads = gradient()
        pairs = zip(grads, seeds, strict=True)
        return sum(float(np.sum(grad.array * seed)) for grad, seed in pairs if grad is not None)

    def second():
        world.tape.clear()
        grads = gradient()
        pairs = [(grad, Eager(world, seed)) for grad, seed in zip(grads, seeds, strict=True) if grad is not None]
        found = world.backward([grad for grad, _ in pairs], [seed for _, seed in pairs])
        return [found.get(id(leaf)) for leaf in leaves]

    check_directions(op, leaves, directions, value, second, "second gradient")


def check_directions(op, leaves, directions, value, gradient, what):
    grads = gradient()
    step = 1e-5
    for leaf, direction, grad in zip(leaves, directions, grads, strict=True):
        if leaf.array.size == 0:
            continue
        origin = leaf.array
        leaf.array = origin + step * direction
        above = value()
        leaf.array = origin - step * direction
        below = value()
        leaf.array = origin
        expected = (above - below) / (2 * step)
        actual = 0.0 if grad is None else float(np.sum(grad.array * direction))
        assert abs(actual - expected) <= 2e-5 * max(1.0, abs(expected)), f"{op.name}: {what} {actual}, not {expected}"


def operators_in(*modules):
    """The operators whose rules are written in these modules."""
    names = {module.__name__ for module in modules}
    return [op for op in OPERATORS.values() if (op.ref_rule or op.decompose_rule or op.meta_rule).__module__ in names]


def names_in(*modules):
    """Their names, as pytest parameters."""
    return [op.name for op in operators_in(*modules)]


def smooth_in(*modules):
    """The names of those that have a gradient."""
    return [op.name for op in operators_in(*modules) if Fact.NONDIFFERENTIABLE not in op.facts]


def check_rules(name):
    """All samples of an operator: see `check_sample`; the first one in bfloat16 too."""
    op = OPERATORS[name]
    found = samples_of(op)
    assert found, f"{name} has no samples"
    for position, sample in found:
        with noted(f"sample {position} of {name}"):
            check_sample(op, sample)
            if position == 0:
                check_narrow(op, sample)


def check_all_gradients(name, fixed=()):
    """All samples of an operator: its gradient and the gradient of that."""
    for position, sample in samples_of(OPERATORS[name]):
        with noted(f"sample {position} of {name}"):
            check_gradients(OPERATORS[name], sample, 2, fixed)


@contextlib.contextmanager
def noted(note):
    """Errors in the block carry the note."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(note)
        raise


def narrowed(sample, dtype):
    """A sample with its floats in another dtype."""

    def convert(item):
        if isinstance(item, np.ndarray) and item.dtype.kind == "f":
            return item.astype(dtype)
        if isinstance(item, (list, tuple)):
            return type(item)(convert(part) for part in item)
        return item

    kwargs = {name: convert(value) for name, value in sample.kwargs.items()}
    return Sample(*[convert(item) for item in sample.args], **kwargs)


def check_narrow(op, sample):
    """bfloat16: the same types and, within its precision, values by ref, loops and decomposition."""
    sample = narrowed(sample, ml_dtypes.bfloat16)
    _, _, meaning = World("ref").run(op, sample)
    for by in ("lower", "decompose"):
        _, _, found = World(by).run(op, sample)
        for actual, expected in zip(outputs_of(found), outputs_of(meaning), strict=True):
            assert actual.dtype is expected.dtype, f"{op.name} by {by}: {actual.dtype} instead of {expected.dtype}"
            assert_close(actual.array, expected.array, f"{op.name} by {by}", rtol=3e-2, atol=3e-2)


@contextlib.contextmanager
def refused(code):
    """The block raises the registered error with this code."""
    with pytest.raises(RushlightError) as caught:
        yield
    assert caught.value.code == code
