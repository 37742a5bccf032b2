"""What may differ from PyTorch: rules with reasons, as predicates on a difference and never on seeds.

Each rule has a row of the same name in docs/deviations.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tools.fuzz.comparing import category_of, near, same_bits, steps_of
from tools.fuzz.differing import (
    Difference,
    Rule,
    apart_at_infinity,
    beyond_operand,
    called,
    extreme,
    overlaps,
    unlike_elements,
)
from tools.fuzz.number_rules import (
    equal_numbers,
    huge_ratios,
    infinite_quantiles,
    narrow_renorm,
    normalised_nothing,
    overflowing_matrices,
    overflowing_product,
    overflowing_sum,
    pooled_nothing,
    rounded_numbers,
    rounded_steps,
    tiny_sigmoids,
    unwritten_elements,
)
from tools.fuzz.program import COMPLEX, DTYPES, FLOATS, INTEGERS, Array, Input, Program, operands, targets
from tools.fuzz.running import Value


def explained(difference: Difference, rules: Sequence[Rule]) -> str | None:
    """The name of the first rule that explains a difference."""
    return next((rule.name for rule in rules if rule.applies(difference)), None)


def _refused_complex(difference: Difference) -> bool:
    return difference.actual.code == "D006" and "complex" in difference.actual.message


def _copied_conjugate(difference: Difference) -> bool:
    copied = re.search(r"\.conj\b", difference.program.statements[0])
    return copied is not None and difference.detail.startswith("shared memory")


def _equal_indices(difference: Difference) -> bool:
    """A write of several values to one element, where it holds one of them in both."""
    assigned = re.match(r"v\d+\[.*\bv\d+\b.*\] = v\d+$", difference.program.statements[-1]) is not None
    writes = assigned or called(difference, "index_put", "index_copy", "scatter")
    indices = [given.array for given in difference.program.inputs[1:] if given.dtype in INTEGERS]
    if not writes or not any(np.unique(index).size < index.size for index in indices):
        return False
    source = difference.program.inputs[-1].array
    pairs = _unlike_pairs(difference)
    return bool(pairs) and all(bool(np.all(np.isin(pair, source.astype(pair[0].dtype)))) for pair in pairs)


def _unlike_pairs(difference: Difference) -> list[tuple[Array, Array]]:
    """Elements of results and storages that differ."""
    sides = [
        [*[value.array for value in side.values], *side.inputs] for side in (difference.actual, difference.expected)
    ]
    unlike = [(one, other) for one, other in zip(*sides, strict=False) if one.shape == other.shape]
    apart = [(one, other, (one != other) & ((one == one) | (other == other))) for one, other in unlike]
    return [(one[places], other[places]) for one, other, places in apart if np.any(places)]


def _precise_weights(difference: Difference) -> bool:
    floats = {given.dtype for given in difference.program.inputs if given.dtype in FLOATS}
    return called(difference, "cov") and len(floats) > 1


def _refused_overlap(difference: Difference) -> bool:
    return difference.actual.code == "S013" and difference.expected.error is None


def _missing_arguments(difference: Difference) -> bool:
    return difference.actual.code in ("A006", "N001")


def _missing_dtypes(difference: Difference) -> bool:
    return difference.actual.code == "D001"


def _further_dtypes(difference: Difference) -> bool:
    message = difference.expected.message
    return difference.actual.error is None and any(part in message for part in _REFUSED_DTYPES)


def _ravelled(difference: Difference) -> bool:
    return called(difference, "ravel") and difference.detail.startswith("shared memory")


def _without_matrix(difference: Difference) -> bool:
    no_dims = not difference.program.inputs or not difference.program.inputs[0].shape
    return difference.actual.code == "S002" and ".mT" in difference.program.statements[-1] and no_dims


def _scattered_overlap(difference: Difference) -> bool:
    """Copies of tensors whose elements overlap, before something is written to them."""
    scatters = called(difference, "select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")
    return scatters and overlaps(difference.program.inputs[0])


def _out_of_bounds(difference: Difference) -> bool:
    return difference.actual.code == "I001" and difference.expected.error is None


def _divided_by_zero(difference: Difference) -> bool:
    return "ZeroDivisionError" in difference.expected.message and difference.actual.error is None


def _checked_probabilities(difference: Difference) -> bool:
    return "between 0 and 1" in difference.expected.message and difference.actual.error is None


def _tied(difference: Difference) -> bool:
    """Indices that differ, of an operator that orders, where the values that they belong to are PyTorch's."""
    actual, expected = difference.actual.values, difference.expected.values
    if not called(
        difference, "sort", "argsort", "topk", "kthvalue", "median", "mode", "max", "min", "argmax", "argmin"
    ):
        return False
    if len(actual) != len(expected) or not actual or actual[-1].dtype != "int64":
        return False
    if len(actual) == 2:  # 0.0 and -0.0 are equal
        return _equal_or_nan(actual[0].array, expected[0].array)
    operand = difference.program.inputs[0].array
    return actual[0].shape == expected[0].shape and _same_taken(operand, actual[0].array, expected[0].array)


def _same_taken(operand: Array, one: Array, other: Array) -> bool:
    """Whether two full sets of indices along some dim take the same elements."""
    if operand.shape != one.shape or operand.ndim == 0:
        return False
    taken = [
        [np.take_along_axis(operand, index, dim) for index in (one, other)]
        for dim in range(operand.ndim)
        if max(one.max(initial=0), other.max(initial=0)) < operand.shape[dim]
    ]
    return any(_equal_or_nan(*pair) for pair in taken)  # 0.0 and -0.0 are equal


def _out_of_range(difference: Difference) -> bool:
    """A float that an integer dtype cannot hold was cast to one."""
    results = (*difference.actual.values, *difference.expected.values)
    if difference.expected.error is not None:
        return False
    if not any(value.dtype in INTEGERS for value in results) and not difference.detail.startswith("storage"):
        return False
    smallest = min([np.iinfo(DTYPES[value.dtype]).max for value in results if value.dtype in INTEGERS], default=127)
    numbers = [given.array for given in difference.program.inputs if given.dtype in (*FLOATS, *COMPLEX)]
    floats = [np.real(array).astype(np.float64) for array in numbers]
    written = difference.program.inputs if difference.detail.startswith("storage") else ()
    low = 0 if any(value.dtype == "uint8" for value in (*results, *written)) else -smallest
    return any(bool(np.any(~((low <= array) & (array < smallest)))) for array in floats)


def _infinite_complex(difference: Difference) -> bool:
    """Complex arithmetic on numbers that are not finite, or that overflow in it."""
    values = [*zip(difference.actual.values, difference.expected.values, strict=False)]
    arrays = [(one.array, other.array) for one, other in values]
    arrays += [*zip(difference.actual.inputs, difference.expected.inputs, strict=False)]
    unlike = [(one, other) for one, other in arrays if not same_bits(one, other)]
    huge = called(difference, "pow", "float_power") and extreme(
        difference, 1e6
    )  # the angle of a power has no digit left
    return bool(unlike) and all(
        one.dtype.kind == "c" and (_finite_alike(one, other) or (huge and not _all_finite(one, other)))
        for one, other in unlike
    )


def _all_finite(one: Array, other: Array) -> bool:
    return bool(np.all(np.isfinite(one) & np.isfinite(other)))


def _finite_alike(one: Array, other: Array) -> bool:
    finite = np.isfinite(one) & np.isfinite(other)
    return not np.all(finite) and bool(np.allclose(one[finite], other[finite], 1e-4, 1e-4))


def _signed_zero(difference: Difference) -> bool:
    names = ("maximum", "minimum", "fmax", "fmin", "amax", "amin", "max", "min", "clamp", "clamp_min", "clamp_max")
    further = ("clip", "relu", "hardtanh", "relu6", "max_pool1d", "max_pool2d", "max_pool3d")
    pairs = zip(difference.actual.values, difference.expected.values, strict=False)
    matches = called(difference, *names, *further) and category_of(difference.detail) == "value"
    return matches and all(_equal_or_nan(one.array, other.array) for one, other in pairs)


def _equal_or_nan(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(np.all((one == other) | ((one != one) & (other != other))))


def _infinite_taps(difference: Difference) -> bool:
    """Of an operand that is not finite, apart only where a result is not."""
    return called(difference, r"conv\w*") and extreme(difference, float("inf")) and apart_at_infinity(difference)


def _overflowing_norm(difference: Difference) -> bool:
    names = ("layer_norm", "group_norm", "batch_norm", "instance_norm", "rms_norm", "var_mean")
    lengths = ("cosine_similarity", "norm", "normalize", "linalg_vector_norm")
    squared = called(difference, *lengths, *names) and extreme(difference, 1e15)
    tiny = called(difference, "norm", "linalg_vector_norm") and _is_tiny(difference.program.inputs[0].array)
    squared = squared or tiny
    return squared or (called(difference, *names) and extreme(difference, 1e4) and apart_at_infinity(difference))


def _is_tiny(array: Array) -> bool:
    return array.size == 1 and abs(complex(array.item())) < 1e-15


def _median_of_repeated(difference: Difference) -> bool:
    return called(difference, "median", "nanmedian") and overlaps(difference.program.inputs[0])


def _flushed_products(difference: Difference) -> bool:
    """Products of bfloat16 with a denormal operand or result, which processors that multiply pairs take for zero."""
    names = ("mm", "mv", "dot", "matmul", "bmm", "linear", "einsum", "baddbmm", "addmm", "scaled_dot_product_attention")
    matches = called(difference, *names) or " @ " in difference.program.statements[-1]
    arrays = [given.array for given in (*difference.program.inputs, *difference.expected.values)]
    factors = [array.astype(np.float64) for array in arrays if array.dtype == DTYPES["bfloat16"]]
    return matches and any(bool(np.any((factor != 0) & (np.abs(factor) < 2.0**-126))) for factor in factors)


def _widened_lengths(difference: Difference) -> bool:
    """A cosine of float16 whose lengths overflow float16, in which PyTorch rounds them."""
    half = any(given.dtype == "float16" for given in difference.program.inputs)
    return called(difference, "cosine_similarity") and half and extreme(difference, 255.0)


def _rough_bessel(difference: Difference) -> bool:
    """Bessel functions of the first and second kind, of which PyTorch's lose half of float64's digits."""
    pairs = zip(difference.actual.values, difference.expected.values, strict=False)
    close = all(bool(np.allclose(a.array, b.array, rtol=0, atol=1e-6, equal_nan=True)) for a, b in pairs)
    return (
        called(difference, "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1") and close
    )


def _largest_of_nan(difference: Difference) -> bool:
    largest = called(difference, "embedding_bag") and "mode='max'" in difference.program.statements[-1]
    return largest and extreme(difference, float("inf"))


def _dtype_of_nothing(difference: Difference) -> bool:
    nothing = called(difference, "bincount", "local_response_norm") and not difference.program.inputs[0].array.size
    return nothing and category_of(difference.detail) == "dtype"


def _infinite_scores(difference: Difference) -> bool:
    """Attention whose scores may overflow.

    It differs where one of the results is not finite, or is 0, as that of a query whose scores are all minus infinity.
    """
    attention = called(difference, "scaled_dot_product_attention")
    half = any(given.dtype == "float16" for given in difference.program.inputs)
    pairs = unlike_elements(difference)
    nothing = all(bool(np.all((one == 0) | ~np.isfinite(one) | ~np.isfinite(other))) for one, other in pairs)
    extremes = extreme(difference, 200.0 if half else 1e15)
    return attention and extremes and (nothing or apart_at_infinity(difference))


def _overlapping_query(difference: Difference) -> bool:
    """Attention whose query's elements overlap."""
    return called(difference, "scaled_dot_product_attention") and overlaps(difference.program.inputs[0])


def _converted_out(difference: Difference) -> bool:
    refused = re.search(
        r"[Ee]xpected (out tensor|object|the dtype for input and out)|expects \w+ tensor out",
        difference.expected.message,
    )
    given = "out=" in difference.program.statements[-1] and difference.actual.error is None
    return given and refused is not None


def _dropped_nan(difference: Difference) -> bool:
    return called(difference, "dropout") and extreme(difference, float("inf"))


def _infinite_powers(difference: Difference) -> bool:
    """Powers by halves that are IEEE 754's of -inf and -0.0, where PyTorch takes a root."""
    text = difference.program.statements[-1]
    found = re.search(r"(?:\*\* |\b(?:float_)?pow_?\((?:v\d+, )?)(-?[02]\.5)\b", text)
    if found is None or len(difference.actual.values) != 1 or difference.program.inputs[0].dtype not in FLOATS:
        return False
    base = difference.program.inputs[0].array.astype(np.float64)
    one, other = [side.values[0].array.astype(np.float64) for side in (difference.actual, difference.expected)]
    if base.shape != one.shape or one.shape != other.shape:
        return False
    with np.errstate(all="ignore"):
        power = np.abs(base) ** float(found[1])  # numpy takes a root as well
        rooted = ((base == -np.inf) | ((base == 0) & np.signbit(base))) & (one == power) & ~np.signbit(one)
        alike = (one == other) | (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= 0.02 * np.abs(other))
    return bool(np.all(rooted | alike))


def _read_before(difference: Difference) -> bool:
    return difference.actual.error is None and "refer to a single memory location" in difference.expected.message


def _logs_of_no_dims(difference: Difference) -> bool:
    refused = "doesn't match the broadcast shape" in difference.expected.message
    return called(difference, "logsumexp") and refused and difference.actual.error is None


def _indices_of_nothing(difference: Difference) -> bool:
    nothing = any(given.dtype in FLOATS and not given.array.size for given in difference.program.inputs)
    empty = any(given.dtype in INTEGERS and not given.array.size for given in difference.program.inputs)
    gathered = difference.actual.code == "S002" and empty and called(difference, "gather")
    return gathered or (difference.actual.code == "I004" and nothing)


def _refused_factor(difference: Difference) -> bool:
    message = difference.actual.message
    fraction = difference.actual.code == "A002" and "scaled by whole numbers" in message
    return fraction or (difference.actual.code == "A004" and "of a higher kind" in message)


def _number_beside(difference: Difference) -> bool:
    """A number beside one tensor, where PyTorch has no overload for it."""
    message = difference.expected.message
    refused = re.search(
        "must be Tensor, not int|doesn't apply to a 'int' object|'int' object has no attribute", message
    )
    return difference.actual.error is None and refused is not None and len(difference.program.inputs) == 1


def _negative_powers(difference: Difference) -> bool:
    return difference.actual.error is None and "negative integer powers" in difference.expected.message


def _drawn(difference: Difference) -> bool:
    """Values that a generator draws, or that memory of `empty` holds."""
    drawing = ("bernoulli", "multinomial", "normal", "rand", "randint", "randn", "rand_like", "randint_like")
    further = ("randn_like", "randperm", "empty", "empty_like", "new_empty", r"\w*dropout\w*", "exponential", "uniform")
    further = (
        *further,
        "cauchy",
        "geometric",
        "log_normal",
        "rrelu",
        "empty_permuted",
        "empty_strided",
        "new_empty_strided",
    )
    drawn = (
        called(difference, *drawing, *further, "svd_lowrank", "pca_lowrank")
        or "dropout_p=0.5" in difference.program.statements[-1]
        or (
            called(difference, r"fractional_max_pool\dd") and "_random_samples" not in difference.program.statements[-1]
        )
        or re.search(r"multi_head_attention_forward\(.*, False, 0\.5, ", difference.program.statements[-1]) is not None
    )
    return drawn and category_of(difference.detail) == "value"


def _without_gradient(difference: Difference) -> bool:
    """No gradient where PyTorch gives zeros."""
    return (
        called(difference, "bernoulli", "fill", "zero_")
        and re.match(r"gradient \d+ is None", difference.detail) is not None
    )


def _scattered_gradient(difference: Difference) -> bool:
    return called(difference, "as_strided_scatter") and difference.detail.startswith("gradient")


def _unread_triangle(difference: Difference) -> bool:
    """Gradients that are zero where PyTorch has some for elements that the operator does not read."""
    if not called(difference, "cholesky_solve", "cholesky_inverse"):
        return False
    pairs = [*zip(difference.actual.gradients, difference.expected.gradients, strict=True)]
    return difference.detail.startswith("gradient") and all(
        one is not None and other is not None and _same_where_given(one.array, other.array) for one, other in pairs
    )


def _same_where_given(one: Array, other: Array) -> bool:
    scale = float(np.max(np.abs(other), initial=1.0))
    return bool(np.allclose(one, np.where(one == 0, 0, other), rtol=1e-4, atol=1e-5 * scale))


def _turned_vectors(difference: Difference) -> bool:
    """Vectors of the same lengths, element by element: another sign, or phase, of the whole."""
    sides = [[value.array for value in side.values] for side in (difference.actual, difference.expected)]
    if not called(difference, "eig", "eigh", "svd") or not difference.detail.startswith("result"):
        return False
    if len(sides[0]) == 3:  # the other rows or columns of a full square matrix are any basis
        count = sides[0][1].shape[-1]
        sides = [[array[..., :count, :count] if array.ndim > 1 else array for array in side] for side in sides]
    return all(near(np.abs(one), np.abs(other)) for one, other in zip(*sides, strict=True))


def _narrow_exponential(difference: Difference) -> bool:
    results = difference.expected.values
    return called(difference, "matrix_exp") and results[0].dtype in ("bfloat16", "float16")


def _zero_gradient(difference: Difference) -> bool:
    """A gradient of zeros where PyTorch gives none."""
    if not called(difference, "norm", "vector_norm", "householder_product", "ormqr"):
        return False
    pairs = [*zip(difference.actual.gradients, difference.expected.gradients, strict=False)]
    return re.match(r"gradient \d+ is given", difference.detail) is not None and all(
        one is None or other is not None or not one.array.any() for one, other in pairs
    )


_REFUSED_DTYPES = (
    "not implemented for",
    "expected dtype",
    "did not match",
    "In-place abs is not supported",
    "not supported for",
    "is not supported",
    "does not support",
    "no longer supported",
    "source and destination dtypes match",
    "must be float, not complex",
    "on an unsigned type",
)

OPERATOR_RULES: tuple[Rule, ...] = (
    Rule("an operand that overlaps what is written to", _read_before),
    Rule("arguments that are missing", _missing_arguments),
    Rule("attention of an overlapping query", _overlapping_query),
    Rule("attention over infinities", _infinite_scores),
    Rule("Bessel functions of float64", _rough_bessel),
    Rule("dtypes of nothing", _dtype_of_nothing),
    Rule("casts out of range", _out_of_range),
    Rule("complex numbers that are not finite", _infinite_complex),
    Rule("complex operators", _refused_complex),
    Rule("`embedding_bag` of NaN", _largest_of_nan),
    Rule("factors of sums", _refused_factor),
    Rule("gradient of `as_strided_scatter`", _scattered_gradient),
    Rule("gradient of `bernoulli`, and of what `fill_` overwrites", _without_gradient),
    Rule("gradient of `renorm` of complex64", narrow_renorm),
    Rule("gradients of zeros", _zero_gradient),
    Rule("gradients of the other triangle", _unread_triangle),
    Rule("`batch_norm` of one dim without elements", normalised_nothing),
    Rule("`conj`", _copied_conjugate),
    Rule("convolutions of infinities", _infinite_taps),
    Rule("cosines of float16", _widened_lengths),
    Rule("covariances with weights of another dtype", _precise_weights),
    Rule("dropout of NaN", _dropped_nan),
    Rule("dtypes that are missing", _missing_dtypes),
    Rule("dtypes that PyTorch refuses", _further_dtypes),
    Rule("indices of equal elements", _tied),
    Rule("indices of nothing", _indices_of_nothing),
    Rule("indices out of range", _out_of_bounds),
    Rule("integer division by zero", _divided_by_zero),
    Rule("`linspace` of 16-bit floats", rounded_steps),
    Rule("`logsumexp` over no dims", _logs_of_no_dims),
    Rule("`matrix_exp` of 16-bit floats", _narrow_exponential),
    Rule("medians of overlapping elements", _median_of_repeated),
    Rule("`mT` without dims", _without_matrix),
    Rule("negative powers of integers", _negative_powers),
    Rule("norms of huge numbers", _overflowing_norm),
    Rule("numbers beside 16-bit floats", rounded_numbers),
    Rule("numbers beside tensors", _number_beside),
    Rule("`out=` of another dtype", _converted_out),
    Rule("overflow within products", overflowing_product),
    Rule("overflow within sums", overflowing_sum),
    Rule("overflow within sums", overflowing_matrices),
    Rule("pools without channels", pooled_nothing),
    Rule("powers of minus infinity and -0.0", _infinite_powers),
    Rule("probabilities of `binary_cross_entropy`", _checked_probabilities),
    Rule("products of bfloat16 denormals", _flushed_products),
    Rule("quantiles at infinities", infinite_quantiles),
    Rule("remainders of huge ratios", huge_ratios),
    Rule("random values", _drawn),
    Rule("`ravel`", _ravelled),
    Rule("scatters into overlapping elements", _scattered_overlap),
    Rule("sigmoids below the smallest normal number", tiny_sigmoids),
    Rule("signs of vectors", _turned_vectors),
    Rule("signs of zero in `maximum`", _signed_zero),
    Rule("variances of equal numbers", equal_numbers),
    Rule("writes at equal indices", _equal_indices),
    Rule("writes to overlapping elements", _refused_overlap),
)
"""What eager operators may do otherwise."""


def _repeats(difference: Difference) -> bool:
    """A statement was refused, and not a backward pass, which writes to no more than the program did."""
    return difference.actual.code == "S013" and difference.actual.line is not None


def _overwritten(difference: Difference) -> bool:
    """No gradient where PyTorch has zeros."""
    if not difference.detail.startswith("gradient"):
        return False
    pairs = zip(difference.actual.gradients, difference.expected.gradients, strict=True)
    return all(
        (one is None or near(one.array, other.array)) and (one is not None or not other.array.any())
        for one, other in pairs
        if other is not None
    )


VIEW_RULES = (
    Rule("gradient of `bernoulli`, and of what `fill_` overwrites", _overwritten),
    Rule("views by strides beyond their operand", beyond_operand),
    Rule("writes to overlapping elements", _repeats),
)
"""What programs of views and in-place writes may do otherwise."""


def _needs_gaps(difference: Difference) -> bool:
    beyond = difference.actual.code == "S012" and "the view leaves the tensor" in difference.actual.message
    return difference.actual.code == "A006" or beyond


_REGROUPING = re.compile(r"\.(unflatten|view|reshape|flatten)\(")
_PARTIAL = re.compile(r"\.(unfold|select|narrow|split|tensor_split|unbind|diagonal|as_strided|expand)\(|\[")


def _shows_gaps(difference: Difference) -> bool:
    """Eager's result has gaps or shows elements twice, or does so for other sizes, and the compiled one is dense.

    Or an input has gaps, or dims are regrouped.
    """
    if not difference.detail.startswith("strides"):
        return False
    program = difference.program
    rows = zip(program.results, difference.actual.values, difference.expected.values, strict=True)
    open_order = any(not _is_dense(given) for given in program.inputs) or any(
        _REGROUPING.search(text) for text in program.statements
    )
    return all(
        steps_of(one) == steps_of(other)
        or open_order
        or not _is_dense(other)
        or (_is_dense(one) and _comes_of_part(program, name))
        for name, one, other in rows
    )


def _comes_of_part(program: Program, name: str) -> bool:
    """Whether a value is a view of a part, or computed of one: it shows all of a dense value for some sizes alone."""
    for text in reversed(program.statements):
        if name in targets(text):
            if _PARTIAL.search(text):
                return True
            name = operands(text)[0]
    return False


def _is_dense(value: Value | Input) -> bool:
    step = 1
    for stride, size in sorted(zip(value.strides, value.shape, strict=True)):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def _read_by_python(difference: Difference) -> bool:
    """A function whose result is a value of Python, as `equal` is."""
    return difference.actual.code == "C002" and any(value.kind != "Tensor" for value in difference.expected.values)


COMPILED_RULES = (
    Rule("random values", unwritten_elements),
    Rule("strides of compiled results that have gaps", _shows_gaps),
    Rule("values that Python reads, compiled", _read_by_python),
    Rule("views by strides of what has gaps, compiled", _needs_gaps),
    Rule("writes to overlapping elements", _repeats),
)
"""What a compiled function may do otherwise than an eager one."""

RECORDED_RULES = tuple(
    [rule for rule in OPERATOR_RULES if rule.name in ("cosines of float16", "products of bfloat16 denormals")]
)
"""What recorded calls may do otherwise: on some processors, or since they were recorded."""

RULES = (*OPERATOR_RULES, *VIEW_RULES, *COMPILED_RULES)
"""All rules."""
