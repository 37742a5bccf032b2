"""vmap of every operator equals a loop over the batch, bit for bit, and so do gradients of each place."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.func import grad
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact

BATCH = 2
# Their results have no size that types tell, or a number's dtype: nothing could stack them. Halves
# of limits hold no ids.
LEFT_OUT = Fact.DATA_DEPENDENT | Fact.CONTROL
NAMES_LEFT_OUT = ("as_number", "ids_within", "lengths_within")
NAMES = [
    name
    for name, op in sorted(OPERATORS.items())
    if op.samples_rule is not None and not op.facts & LEFT_OUT and name not in NAMES_LEFT_OUT
]
# Their offsets ascend from 0, and so do halves of them.
WITH_OFFSETS = ("embedding_bag", "offsets_within")


class Call:
    """A call of an operator's first sample on a batch: arrays are stacked with a turned copy of themselves."""

    def __init__(self, name):
        self.op = OPERATORS[name]
        sample = next(iter(self.op.samples_rule(np.random.default_rng(0))), None)
        leaves, self.structure = flatten_tree((tuple(sample.args), dict(sample.kwargs)))
        leaves = [leaf.item() if isinstance(leaf, np.generic) else leaf for leaf in leaves]
        self.definite = sample.domain == "definite"
        self.places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]
        self.leaves = [self.batch(leaf) if at in self.places else leaf for at, leaf in enumerate(leaves)]

    def batch(self, array):
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        other = np.roll(array.reshape(-1), 1).reshape(array.shape)
        if self.op.name in WITH_OFFSETS and array.dtype.kind == "i":
            other = array // 2
        if self.definite:
            array, other = [
                item @ np.swapaxes(item, -2, -1) + np.eye(item.shape[-1], dtype=item.dtype) for item in (array, other)
            ]
        return rl.tensor(np.stack([array, other]))

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for at, tensor in zip(self.places, tensors, strict=True):
            leaves[at] = tensor
        args, kwargs = unflatten_tree(self.structure, leaves)
        result = self.op(*args, **kwargs)
        return result if isinstance(result, tuple) else (result,)

    def loss(self, *tensors):
        return sum((item * item).sum() for item in self(*tensors) if item.dtype is rl.float32)

    def one(self, place, mask):
        return [self.leaves[at][place if flag else 0] for at, flag in zip(self.places, mask, strict=True)]


def assert_bits(found, expected):
    assert found.dtype is expected.dtype and found.shape == expected.shape
    assert found.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.generated
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("quick_code")
def test_vmap_equals_a_loop(name):
    call = Call(name)
    if not call.places:
        return  # nothing to batch
    for mask in dict.fromkeys([(True,) * len(call.places), (True,) + (False,) * (len(call.places) - 1)]):
        rows = [call.one(place, mask) for place in range(BATCH)]
        expected = [call(*row) for row in rows]
        arguments = [call.leaves[at] if flag else row for at, flag, row in zip(call.places, mask, rows[0], strict=True)]
        in_dims = tuple(0 if flag else None for flag in mask)
        found = rl.vmap(call, in_dims, randomness="same")(*arguments)
        for position, item in enumerate(found):
            assert_bits(item, rl.stack([one[position] for one in expected]))


@pytest.mark.generated
@pytest.mark.parametrize("name", [name for name in NAMES if Fact.NONDIFFERENTIABLE not in OPERATORS[name].facts])
@pytest.mark.usefixtures("quick_code")
def test_gradients_of_each_place_equal_a_loop(name):
    call = Call(name)
    batches = [call.leaves[at] for at in call.places]
    wanted = tuple(at for at, batch in enumerate(batches) if batch.dtype is rl.float32)
    if not wanted or not any(item.dtype is rl.float32 for item in call(*[batch[0] for batch in batches])):
        return  # nothing to differentiate
    found = rl.vmap(grad(call.loss, wanted), randomness="same")(*batches)
    for position, item in enumerate(found):
        rows = [grad(call.loss, wanted)(*[batch[place] for batch in batches])[position] for place in range(BATCH)]
        assert rl.allclose(item, rl.stack(rows), rtol=1e-5, atol=1e-5, equal_nan=True)
