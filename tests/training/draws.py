"""PyTorch fed with the random numbers of Rushlight: the same initial weights, noise, masks, actions and shuffles.

A random call of Rushlight depends on a seed and on its ordinal alone, and numpy computes the same numbers by the `ref`
rules of the operators. Here PyTorch's random functions give what these rules give for the next ordinal.
"""

import contextlib
import math
from unittest import mock

import numpy as np

from rushlight.data.permutation import permutation
from rushlight.ir.dtype import BY_NAME
from rushlight.ops.random import rand_ref, randint_ref, randn_ref, random_bits_ref
from rushlight.runtime.generator import Generator


class Draws:
    """Stand-ins for PyTorch's random functions, which draw from one stream."""

    def __init__(self, torch):
        self.torch = torch
        self.stream = Generator()

    def patched(self):
        """Return a context in which PyTorch draws from here, and after which its own stream is where it was."""
        functional, tensor = self.torch.nn.functional, self.torch.Tensor
        stack = contextlib.ExitStack()
        for owner, names in (
            (self.torch, "manual_seed rand randn rand_like randn_like randint randperm normal bernoulli multinomial"),
            (functional, "dropout dropout2d scaled_dot_product_attention"),
            (tensor, "uniform_ normal_ bernoulli_ random_"),
            (self.torch.utils.data.RandomSampler, "__iter__"),
        ):
            for name in names.split():
                made = getattr(self, name if name != "__iter__" else "shuffled")
                made = _method(made) if isinstance(owner, type) else made
                stack.enter_context(mock.patch.object(owner, name, made))
        stack.enter_context(mock.patch.object(self.torch.utils.data.dataset, "randperm", self.order))
        before = self.torch.get_rng_state()
        stack.callback(lambda: self._check(before))
        return stack

    def _check(self, before):
        assert self.torch.equal(self.torch.get_rng_state(), before), "a random function was called that is not fed"

    def _drawn(self, ref, *operands, dtype):
        """The result of a random operator's numpy rule for the next ordinal."""
        dtype = BY_NAME[str(dtype or self.torch.get_default_dtype()).removeprefix("torch.")]
        return self.torch.from_numpy(ref(*operands, *self.stream.next_ordinal(), dtype, None))

    def manual_seed(self, seed):
        self.stream.manual_seed(seed)

    def rand(self, *size, dtype=None, requires_grad=False):
        return self._drawn(rand_ref, _shape(size), dtype=dtype).requires_grad_(requires_grad)

    def randn(self, *size, dtype=None, requires_grad=False):
        return self._drawn(randn_ref, _shape(size), dtype=dtype).requires_grad_(requires_grad)

    def rand_like(self, like, dtype=None):
        return self.rand(like.shape, dtype=dtype or like.dtype)

    def randn_like(self, like, dtype=None):
        return self.randn(like.shape, dtype=dtype or like.dtype)

    def randint(self, low, high, size=None, dtype=None):
        low, high, size = (0, low, high) if size is None else (low, high, size)
        return self._drawn(randint_ref, low, high, tuple(size), dtype=dtype or self.torch.int64)

    def randperm(self, n):
        bits = self._drawn(random_bits_ref, (n,), dtype=self.torch.uint64)
        return self.torch.from_numpy(np.argsort(bits.numpy(), kind="stable"))

    def order(self, count, generator=None):
        """As PyTorch's splits ask for the integers below `count` in random order."""
        return self.torch.tensor(permutation(count, self.stream))

    def shuffled(self, sampler):
        """The order of one pass of a RandomSampler, of which PyTorch's own draws a second one at the end."""
        assert not sampler.replacement
        return iter(permutation(len(sampler.data_source), self.stream))

    def normal(self, mean, std, size=None, dtype=None):
        if size is not None:
            return self.randn(size, dtype=dtype) * std + mean
        either = mean + std
        return self.randn(either.shape, dtype=either.dtype) * std + mean

    def bernoulli(self, chances):
        return (self.rand(chances.shape, dtype=self.torch.float32) < chances).to(chances.dtype)

    def multinomial(self, weights, num_samples, replacement=False):
        assert replacement or num_samples == 1
        below = weights.cumsum(-1)
        drawn = self.rand(*weights.shape[:-1], num_samples, dtype=weights.dtype)
        return (below[..., None, :] <= (drawn * below[..., -1:])[..., None]).sum(-1)

    def dropout(self, input, p=0.5, training=True, inplace=False):
        if not training or p == 0.0:
            return input
        kept = self.rand(input.shape, dtype=self.torch.float32) >= p
        return self.torch.where(kept, input * (1.0 / (1.0 - p)), 0.0)

    def dropout2d(self, input, p=0.5, training=True, inplace=False):
        if not training or p == 0.0:
            return input
        return input * self.dropout(self.torch.ones(*input.shape[:2], 1, 1, dtype=input.dtype), p)

    def scaled_dot_product_attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **rest):
        """PyTorch's own draws its mask inside; without dropout this is only another grouping of the same sums."""
        assert not rest
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if is_causal:
            attn_mask = self.torch.ones(scores.shape[-2:], dtype=self.torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype == self.torch.bool:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return self.dropout(scores.softmax(-1), dropout_p) @ value

    def uniform_(self, tensor, from_=0.0, to=1.0, generator=None):
        with self.torch.no_grad():
            return tensor.copy_(self.rand(tensor.shape, dtype=tensor.dtype) * (to - from_) + from_)

    def normal_(self, tensor, mean=0.0, std=1.0, generator=None):
        with self.torch.no_grad():
            return tensor.copy_(self.randn(tensor.shape, dtype=tensor.dtype) * std + mean)

    def bernoulli_(self, tensor, p=0.5):
        return tensor.copy_(self.rand(tensor.shape, dtype=self.torch.float32) < p)

    def random_(self, tensor, *bounds, generator=None):
        """PyTorch's samplers and loaders draw seeds by this, of which nothing here depends."""
        return tensor.zero_()


def _method(function):
    return lambda tensor, *args, **named: function(tensor, *args, **named)


def _shape(size):
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
