"""Random tensors and the state they are drawn from.

Operators with Fact.RANDOM take a seed and an ordinal; where a call gives none they are filled in here, before any key
answers, so that what is recorded, recomputed or differentiated sees the same two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from collections.abc import Generator as Iteration
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from rushlight.eager.arguments import (
    default_dtype,
    element_type,
    fixed_integer,
    integer,
    number,
    place,
    place_of_new,
    required_operand,
    required_tensor,
    shape_of,
)
from rushlight.eager.asserting import asks_values, require_values
from rushlight.eager.boundary import checked, checked_methods
from rushlight.eager.creation import OPTIONS, empty, with_gradient
from rushlight.eager.dispatch import (
    BACKENDS,
    STATE,
    Key,
    Preparation,
    bit,
    call_function,
    refuse_in_graphs,
    register_preparation,
)
from rushlight.eager.handle import Handle, is_wrapper
from rushlight.eager.keywords import named_size, no_more
from rushlight.eager.memory import array_of, copied
from rushlight.eager.mutation import Mutation, in_place
from rushlight.eager.overloads import ConversionOverloads
from rushlight.eager.storage.formats import laid_out
from rushlight.ir.dtype import float32, float64, int64, uint8, uint64
from rushlight.ir.type import CPU, Device
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact, Operator
from rushlight.runtime.generator import Generator, before_change, default_generator, state_format
from rushlight.support.errors import fail, require
from rushlight.term import Op

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_HALF, _WHOLE = 1 << 63, 1 << 64
_DRAWS = bit(Key.TRACING) | BACKENDS & ~bit(Key.META)


def random_state(generator: object = None, count: int = 1) -> tuple[object, object]:
    """Seed and ordinal of the next random call, as operators take them: signed 64-bit integers.

    While a program is traced its tracer may say what stands for them, since they are known only when it runs.
    """
    stream = default_generator if generator is None else generator
    if not isinstance(stream, Generator):
        fail("A001", "a generator is expected", generator=generator)
    ask: Callable[..., tuple[object, object]] | None = getattr(STATE.tracer, "random_state", None)
    if ask is not None:
        return ask(stream, count)
    seed, ordinal = stream.next_ordinal(count)
    return _signed(seed), _signed(ordinal)


def _signed(value: int) -> int:
    return value - _WHOLE if value >= _HALF else value


def _wraps(operands: tuple[object, ...]) -> bool:
    return any(isinstance(operand, Handle) and is_wrapper(operand) for operand in operands)


def _preparation(op: Op) -> Preparation | None:
    base = op.base if isinstance(op, Mutation) else op
    if not isinstance(base, Operator) or Fact.RANDOM not in base.facts:
        return None
    names = [parameter.name for parameter in base.schema.operands]
    seed, ordinal = names.index("seed"), names.index("ordinal")

    def fill(operands: tuple[object, ...], active: int) -> tuple[object, ...]:
        if operands[seed] is not None:
            require(operands[ordinal] is not None, "A003", f"{base.name}: seed is given without ordinal")
            return operands
        completed = list(operands)
        # Tensors without data draw nothing, unless what is traced with them or what they wrap will.
        draws = active & _DRAWS or not active & bit(Key.META) or _wraps(operands)
        completed[seed], completed[ordinal] = random_state() if draws else (0, 0)
        return tuple(completed)

    return fill


register_preparation(_preparation)


def _given(generator: object) -> tuple[object, object]:
    """The state of a generator that was named; without one it is filled in when the call begins."""
    return (None, None) if generator is None else random_state(generator)


def _drawn(
    name: str,
    operands: tuple[object, ...],
    size: tuple[object, ...],
    dtype: object,
    device: object,
    generator: object,
    wanted: bool,
) -> Tensor:
    seed, ordinal = _given(generator)
    attrs = {"size": shape_of(size), "dtype": dtype, "device": place_of_new(device)}
    result = call_function(OPERATORS[name], (*operands, seed, ordinal), attrs)
    return with_gradient(result, wanted)


_OPTIONS = ("generator", *OPTIONS)


@checked
def rand(
    *size: object,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Uniform numbers of [0, 1)."""
    if rest:
        size = named_size(size, rest, _OPTIONS)
    return _drawn("rand", (), size, element_type(dtype) or default_dtype(), device, generator, requires_grad)


@checked
def randn(
    *size: object,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Normally distributed numbers of mean 0 and variance 1."""
    if rest:
        size = named_size(size, rest, _OPTIONS)
    return _drawn("randn", (), size, element_type(dtype) or default_dtype(), device, generator, requires_grad)


@checked
def randint(
    *args: object,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **named: object,
) -> Tensor:
    """Integers of [low, high): `randint(high, size)` or `randint(low, high, size)`, by position or by name."""
    low, high, size = _range_and_size(args, named)
    bounds = (required_operand(low), required_operand(high))
    if isinstance(low, int) and isinstance(high, int):
        require(low < high, "A002", "randint: high must be greater than low", low=low, high=high)
    return _drawn("randint", bounds, (size,), element_type(dtype) or int64, device, generator, requires_grad)


def _range_and_size(args: tuple[object, ...], named: dict[str, object]) -> tuple[object, object, object]:
    """low, high and size of `randint`; A003 unless each but low is given, once."""
    names = ("low", "high", "size")
    given = [name for name in names if name in named]
    names = names if "low" in named or len(args) + len(given) > 2 else names[1:]
    chosen = {name: named.pop(name) for name in given}
    if named:
        no_more(named, (*names, *_OPTIONS))
    positional = names[: len(args)]
    fits = len(args) + len(given) == len(names) and not chosen.keys() & set(positional)
    require(fits, "A003", "randint: takes high and size, or low, high and size")
    chosen.update(zip(positional, args, strict=True))
    return chosen.get("low", 0), chosen["high"], chosen["size"]


@checked
def randperm(
    n: int,
    *,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """The integers from 0 to n - 1 in random order."""
    if rest:
        no_more(rest, _OPTIONS)
    bits = _drawn("random_bits", (), (integer(n),), uint64, device, generator, False)
    if bits.is_meta:
        return with_gradient(empty(integer(n), dtype=element_type(dtype) or int64, device=bits.device), requires_grad)
    wanted = element_type(dtype) or int64
    if STATE.tracer is None and not STATE.maps:
        result = copied(np.argsort(array_of(bits), kind="stable"), wanted)
    else:
        result = bits.argsort(stable=True).to(wanted)
    return with_gradient(result, requires_grad)


def _like(
    name: str,
    like: object,
    dtype: object,
    device: object,
    generator: object,
    requires_grad: bool,
    rest: dict[str, object],
) -> Tensor:
    memory_format = rest.pop("memory_format", None)
    if rest:
        no_more(rest, _OPTIONS)
    tensor = required_tensor(like)
    require(device is None or place(device) == tensor.device, "A006", f"{name}: on another device", device=device)
    result = call_function(OPERATORS[name], (tensor, *_given(generator)), {"dtype": element_type(dtype)})
    if memory_format is not None:
        result = laid_out(result, memory_format)
    return with_gradient(result, requires_grad)


@checked
def rand_like(
    input: object,
    *,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Uniform numbers of [0, 1) in the shape of another tensor."""
    return _like("rand_like", input, dtype, device, generator, requires_grad, rest)


@checked
def randn_like(
    input: object,
    *,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Normally distributed numbers in the shape of another tensor."""
    return _like("randn_like", input, dtype, device, generator, requires_grad, rest)


@checked
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: object = None,
    *,
    generator: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Normally distributed numbers, one for each pair of mean and standard deviation, or of a size."""
    if rest:
        no_more(rest, _OPTIONS)
    real = not any(isinstance(one, complex) for one in (mean, std))
    require(real, "A001", "normal: mean and std must be real numbers", mean=mean, std=std)
    if size is not None:
        drawn = randn(size, generator=generator, dtype=dtype, device=device)
        shift = mean * (1 + 1j) if drawn.is_complex() else mean  # both parts are moved
        return with_gradient(drawn * std + shift, requires_grad)
    either = mean + std
    require(isinstance(either, Handle), "A001", "normal: of two numbers a size is needed too", mean=mean, std=std)
    wanted = either.dtype if dtype is None else dtype
    return randn(*either.shape, generator=generator, dtype=wanted, device=device) * std + mean


@checked
def bernoulli(input: object, p: object = None, *, generator: object = None) -> Tensor:
    """1 with the chance that each element says, or with chance `p`, else 0.

    Outside of `vmap` chances must lie between 0 and 1 (A002).
    """
    _require_chance(input if p is None else p, "bernoulli")
    chances = input if p is None else OPERATORS["full_like"](required_tensor(input), p)
    return call_function(OPERATORS["bernoulli"], (chances, *_given(generator)), {})


@checked
def multinomial(input: object, num_samples: int, replacement: bool = False, *, generator: object = None) -> Tensor:
    """Indices along the last dim, each with a chance in proportion to its element.

    Outside of `vmap` elements must be finite and not negative, and some of each row positive (A002).
    Without replacement no index occurs twice: the elements are divided by exponentially distributed numbers, and the
    largest ones are taken (Efraimidis and Spirakis, 2006).
    """
    count, weights = fixed_integer(num_samples), required_tensor(input)
    require(weights.ndim in (1, 2), "S002", "multinomial: the input must have 1 or 2 dims", input=weights)
    require(count >= 0, "A002", "multinomial: the number of samples must not be negative", num_samples=count)
    if asks_values():
        _require_chances(weights)
    if not replacement and count > 1 and weights.ndim and weights.dtype.is_floating_point:
        enough = count <= weights.shape[-1]
        require(enough, "A002", "multinomial: more samples than elements, without replacement", num_samples=count)
        waits = -(-rand(*weights.shape, dtype=float64, generator=generator)).log1p()
        return (weights / waits.clamp(min=2.0**-53)).topk(count).indices
    attrs = {"num_samples": count, "replacement": replacement}
    return call_function(OPERATORS["multinomial"], (input, *_given(generator)), attrs)


def _known(value: object) -> TypeGuard[float]:
    """Whether a number is known now: one that stays open while a function is traced is not compared."""
    return value.__class__ in (int, float)


def _require_chance(chance: object, name: str) -> None:
    """Check a number that is known now, or the elements of a tensor."""
    message = f"{name}: chances lie between 0 and 1"
    if not isinstance(chance, Handle):
        require(not _known(chance) or 0 <= chance <= 1, "A002", message, p=chance)
    elif asks_values() and chance.dtype.is_floating_point:
        require_values((chance >= 0) & (chance <= 1), "A002", message, p=chance)


def _require_chances(weights: Tensor) -> None:
    whole = ((weights >= 0) & weights.isfinite()).all(-1) & (weights.sum(-1) > 0)
    require_values(whole, "A002", "multinomial: elements are finite chances, and some of each row positive")


@checked_methods
class RandomMethods(ConversionOverloads):
    """Methods that draw random numbers, most of them in place."""

    __slots__ = ()

    bernoulli, multinomial = bernoulli, multinomial

    def uniform_(self, from_: object = 0.0, to: object = 1.0, *, generator: object = None, **named: object) -> Tensor:
        """Fills with uniform numbers of [from, to)."""
        from_ = _begin(from_, named)
        if _known(from_) and _known(to):
            require(from_ <= to, "A002", "uniform_: the range ends before it begins", from_=from_, to=to)
        return in_place(OPERATORS["uniform"])(self, from_, to, **_named(generator))

    def normal_(self, mean: object = 0.0, std: object = 1.0, *, generator: object = None) -> Tensor:
        """Fills with normally distributed numbers."""
        if _known(std):
            require(std >= 0, "A002", "normal_: the standard deviation must not be negative", std=std)
        return in_place(OPERATORS["normal"])(self, mean, std, **_named(generator))

    def random_(self, from_: int = 0, to: int | None = None, *, generator: object = None, **named: object) -> Tensor:
        """Fills with integers of [from, to)."""
        from_ = integer(_begin(from_, named))
        low, high = (from_, to) if to is not None else (0, from_ or 1 << 24)
        return self.copy_(randint(low, high, tuple(self.shape), generator=generator, device=self.device))

    def bernoulli_(self, p: object = 0.5, *, generator: object = None) -> Tensor:
        """Fills with 1 with chance p, else 0; chances are checked as those of `bernoulli`."""
        _require_chance(p, "bernoulli_")
        return self.copy_(rand(*self.shape, generator=generator, device=self.device) < p)

    def exponential_(self, lambd: float = 1, *, generator: object = None) -> Tensor:
        """Fills with exponentially distributed numbers of mean 1 / lambd."""
        require(number(lambd) > 0, "A002", "exponential_: lambd must be positive", lambd=lambd)
        uniform = self._uniform("exponential_", generator)
        return self.copy_((-(-uniform).log1p()).clamp(min=2.0**-25) / lambd)

    def geometric_(self, p: float, *, generator: object = None) -> Tensor:
        """Fills with the numbers of trials up to the first success, each of chance p."""
        require(0 < number(p) < 1, "A002", "geometric_: p must lie between 0 and 1", p=p)
        uniform = rand(*self.shape, dtype=float64, generator=generator, device=self.device)
        return self.copy_(((-uniform).log1p() / math.log1p(-p)).ceil().clamp(min=1))

    def cauchy_(self, median: float = 0, sigma: float = 1, *, generator: object = None) -> Tensor:
        """Fills with numbers of a Cauchy distribution."""
        require(number(sigma) > 0, "A002", "cauchy_: sigma must be positive", sigma=sigma)
        uniform = self._uniform("cauchy_", generator)
        return self.copy_(((uniform - 0.5) * math.pi).tan() * sigma + median)

    def log_normal_(self, mean: float = 1, std: float = 2, *, generator: object = None) -> Tensor:
        """Fills with numbers whose logarithms are normally distributed."""
        require(number(std) > 0, "A002", "log_normal_: std must be positive", std=std)
        require(self.dtype.is_floating_point, "D001", "log_normal_: the dtype must be floating-point", input=self)
        dtype = float64 if self.dtype is float64 else float32
        normally = randn(*self.shape, dtype=dtype, generator=generator, device=self.device)
        return self.copy_((normally * std + mean).exp())

    def _uniform(self, name: str, generator: object) -> Tensor:
        require(self.dtype.is_floating_point, "D001", f"{name}: the dtype must be floating-point", input=self)
        dtype = float64 if self.dtype is float64 else float32
        return rand(*self.shape, dtype=dtype, generator=generator, device=self.device)


def _begin(from_: object, named: dict[str, object]) -> object:
    """The argument `from`, whose name is a word of Python's; other names are refused as by `no_more`."""
    start = named.pop("from", from_)
    if named:
        no_more(named, ("from", "to", "generator"), {})
    return start


def _named(generator: object) -> dict[str, object]:
    seed, ordinal = _given(generator)
    return {"seed": seed, "ordinal": ordinal}


before_change.append(partial(refuse_in_graphs, "setting a generator's seed", "it changes what later calls draw"))


@checked
def manual_seed(seed: int) -> Generator:
    """Starts the default stream of random numbers from a seed."""
    return default_generator.manual_seed(integer(seed))


def seed() -> int:
    """Starts the default stream from a seed that nobody knows, and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default stream."""
    refuse_in_graphs("initial_seed", "it tells what earlier calls have drawn")
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default stream's state, as a uint8 tensor of 16 elements."""
    refuse_in_graphs("get_rng_state", "it tells what earlier calls have drawn")
    return default_generator.get_state()


def _state_of(position: tuple[int, int]) -> Tensor:
    """The state of a generator: its seed and its ordinal, of 8 bytes each."""
    return copied(np.array(position, "<u8").view(np.uint8), uint8)


def _position_of(state: object) -> tuple[int, int]:
    """The seed and the ordinal in a state. Errors: A001 for no tensor, A002 for one that is no state."""
    given = required_tensor(state)
    fits = given.dtype is uint8 and tuple(given.shape) == (16,)
    require(fits, "A002", "set_state: a uint8 tensor of 16 elements, a generator's state, is expected", state=given)
    seed_then, ordinal = [int(number) for number in np.ascontiguousarray(array_of(given)).view("<u8")]
    return seed_then, ordinal


state_format[:] = [(_state_of, _position_of)]


@checked
def set_rng_state(new_state: Any) -> None:
    """Continues the default stream from a state that `get_rng_state` returned."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Iterable[object] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iteration[None]:
    """A scope after which the default stream goes on as if nothing had been drawn.

    Without `enabled` nothing is put back. Other devices have no streams: `devices` may be empty, or name the CPU.
    A006 for others.
    """
    for device in devices or ():
        here = isinstance(device, (str, Device)) and place(device) == CPU
        require(here, "A006", f"{_caller}: there is no such device", device=device)
    if not enabled:
        yield
        return
    before = default_generator.position()
    try:
        yield
    finally:
        default_generator.go_to(before)
