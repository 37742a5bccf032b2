"""The operators on tensors that are divided among ranks: results and gradients are those of whole tensors.

python -m matrix_divided                    # from tests/harness, with PYTHONPATH=../../src:. : all operators
python -m matrix_divided add                # one
python -m matrix_divided --every 10         # each tenth

A case is a sample of an operator, in float64 where it takes floats. On a mesh of 4 ranks its operands lie in all
placements that there are for them: whole, divided along each dim, partial. On meshes of (2, 2) and (2, 3) ranks pairs
of placements are drawn. Ranks are threads of one process.
"""

import itertools
import zlib

import numpy as np

import rushlight as rl
from matrix_calls import built, call_without, flat_tensors, key_of, outputs_of, structure_of
from matrix_cases import Case, materialise, sample_arguments
from matrix_command import ask_all, told
from rushlight import distributed as dist
from rushlight.autograd import grad
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from rushlight.eager.creation import from_numpy
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact

MESHES = ((4,), (2, 2), (2, 3))
MOST = 12  # ways in which operands lie, for each sample and mesh
# What is in memory; numbers of Python's; what is on another device; factors whose signs nobody promises.
LEFT_OUT = {"empty", "empty_like", "as_number", "to_device", "item"}


def widened(leaf):
    """Data in float64 or complex128, so that roundings do not hide what is wrong."""
    array = leaf.array
    if leaf.role != "data" or array.dtype.kind not in "fc":
        return array.copy()
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


class Prepared:
    """One sample as a function of tensors."""

    def __init__(self, name, sample):
        self.name, self.sample = name, sample
        self.op = OPERATORS[name]
        arguments = materialise(Case(name, sample))
        operands = built(arguments.operands, lambda leaf: from_numpy(widened(leaf)))
        self.arrays = [leaf.numpy() for leaf in flat_tensors(operands)]
        self.run = call_without(self.op, structure_of(operands), key_of(arguments.attrs))
        self.differentiable = Fact.NONDIFFERENTIABLE not in self.op.facts

    def leaf(self, array):
        tensor = from_numpy(array.copy())
        return tensor, self.differentiable and tensor.is_floating_point()

    def outcome(self, tensors):
        """Results and gradients."""
        rl.manual_seed(3)
        results = [out for out in outputs_of(self.run(*tensors)) if isinstance(out, rl.Tensor)]
        outs = [out for out in results if out.requires_grad]
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        if not outs or not wanted:
            return results, []
        weights = [self.weights(out) for out in outs]
        return results, list(grad(outs, wanted, weights, allow_unused=True))

    def weights(self, out):
        """What gradients begin with: different numbers, whole on each rank."""
        count = np.arange(int(np.prod(out.shape)), dtype=np.float64).reshape(tuple(out.shape))
        weights = rl.tensor((np.cos(count) + 1.5).tolist(), dtype=out.dtype).reshape(tuple(out.shape))
        if isinstance(out, DTensor):
            return distribute_tensor(weights, out.device_mesh, src_data_rank=None)
        return weights


def placements_of(array):
    """The placements that there are for an operand."""
    found = [Replicate(), *[Shard(dim) for dim in range(array.ndim)]]
    return [*found, Partial()] if array.dtype.kind in "fc" else found


def ways(prepared, mesh):
    """How the operands may lie, all of a mesh of one axis where they are not too many; the same at each call."""
    choices = [list(itertools.product(placements_of(array), repeat=len(mesh))) for array in prepared.arrays]
    rng = np.random.default_rng(zlib.crc32(f"{prepared.name} {prepared.sample} {mesh}".encode()))
    count = int(np.prod([len(options) for options in choices], dtype=np.float64))
    if count <= MOST:
        return list(itertools.product(*choices))
    return [tuple(options[rng.integers(len(options))] for options in choices) for _ in range(MOST)]


def divided(prepared, array, mesh, placements):
    """An operand as it lies: partial values are shares of it."""
    tensor, differentiable = prepared.leaf(array)
    if any(placement.is_partial() for placement in placements):
        whole = [Replicate() if one.is_partial() else one for one in placements]
        part = distribute_tensor(tensor, mesh, whole, src_data_rank=None).to_local()
        scale = partial_share(mesh, placements)
        made = DTensor.from_local(part * scale, mesh, placements, shape=tuple(array.shape))
    else:
        made = distribute_tensor(tensor, mesh, placements, src_data_rank=None)
    return made.detach().requires_grad_(differentiable)


def partial_share(mesh, placements):
    """This rank's share: those along an axis add up to 1, exactly."""
    share = 1.0
    for axis, placement in enumerate(placements):
        if placement.is_partial():
            index, count = mesh.get_local_rank(axis), mesh.shape[axis]
            share *= 0.5 ** min(index + 1, count - 1)
    return share


def whole(value):
    """A result on one rank."""
    return None if value is None else (value.full_tensor() if isinstance(value, DTensor) else value).detach().numpy()


def differs(found, wanted, exact):
    """How values differ; None if they do not."""
    for kind, ones, others in zip(("result", "gradient"), found, wanted, strict=True):
        for at, (one, other) in enumerate(zip(ones, others, strict=True)):
            text = difference(one, other, exact)
            if text is not None:
                return f"{kind} {at}: {text}"
    return None


def difference(one, other, exact):
    if one is None or other is None:
        return None if one is other or not np.any(other if one is None else one) else f"{one} instead of {other}"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{one.shape} instead of {other.dtype}{other.shape}"
    if exact or one.dtype.kind not in "fcV":
        return None if np.array_equal(one, other, equal_nan=one.dtype.kind in "fc") else f"{one} instead of {other}"
    small = one.dtype.itemsize < 8 or one.dtype.kind == "V"
    one, other = (value.astype(np.float64) if value.dtype.kind == "V" else value for value in (one, other))
    scale = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    rtol, atol = (1e-4, 1e-5) if small else (1e-8, 1e-9)
    close = np.allclose(one, other, rtol=rtol, atol=max(scale * atol, 1e-13), equal_nan=True)
    return None if close else f"{one} instead of {other}"


def text_of(way):
    return ", ".join("".join(map(str, placements)) for placements in way)


def ask(name, sample, shape, counts=None):
    """What is wrong with a sample on one mesh."""
    prepared = Prepared(name, sample)
    leaves = []
    for array in prepared.arrays:
        tensor, differentiable = prepared.leaf(array)
        leaves.append(tensor.requires_grad_(differentiable))
    results, gradients = prepared.outcome(leaves)
    wanted = [whole(one) for one in results], [whole(one) for one in gradients]

    def on_rank(way):
        mesh = init_device_mesh("cpu", shape)
        operands = [
            divided(prepared, array, mesh, placements) for array, placements in zip(prepared.arrays, way, strict=True)
        ]
        results, gradients = prepared.outcome(operands)
        plain = not any(placement.is_partial() for placements in way for placement in placements)
        exact = plain and moves(prepared.op)
        return differs(([whole(one) for one in results], [whole(one) for one in gradients]), wanted, exact)

    asked = ways(prepared, shape) if prepared.arrays else []
    if counts is not None:
        counts[len(shape)] += len(asked)
    ranks = int(np.prod(shape))
    try:
        # All at once, since ranks are not made for nothing; one that fails leaves the others waiting.
        texts = [next(filter(None, of), None) for of in zip(*dist.spawn(lambda: list(map(on_rank, asked)), ranks))]
    except Exception:
        texts = [failure(on_rank, ranks, way) for way in asked]
    pairs = zip(asked, texts, strict=True)
    return [f"{name} s{sample} on {shape}, {text_of(way)}: {text}" for way, text in pairs if text is not None]


def failure(on_rank, ranks, way):
    """What is wrong with one way."""
    try:
        return next(filter(None, dist.spawn(on_rank, ranks, (way,))), None)
    except Exception as error:
        return told(error)


def moves(op):
    """Whether an operator hands elements on as they are."""
    return bool(op.facts & Fact.VIEW)


def samples_of(name):
    """Samples whose first operand is a tensor."""
    samples = sample_arguments(name)
    return [at for at, sample in enumerate(samples) if sample.leaves()]


def failures(name, counts=None, most=None):
    """What is wrong with an operator. `most` bounds the samples, of which one mesh each is asked then."""
    op = OPERATORS[name]
    if name in LEFT_OUT or Fact.DATA_DEPENDENT in op.facts:
        return []
    found = []
    for number, sample in enumerate(samples_of(name)[:most]):
        for shape in MESHES if most is None else (MESHES[number % len(MESHES)],):
            found.extend(ask(name, sample, shape, counts))
    return found


if __name__ == "__main__":
    ask_all(failures)
