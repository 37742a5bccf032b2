"""rushlight.utils.checkpoint: the bits of a plain call, with less memory, or an error."""

import functools
import weakref

import pytest

import rushlight as rl
from rushlight.nn.functional import dropout
from rushlight.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

selective = functools.partial(create_selective_checkpoint_contexts, [rl.matmul])
w = rl.randn(8, 8, generator=rl.Generator().manual_seed(1)).requires_grad_()
x = rl.randn(5, 8, generator=rl.Generator().manual_seed(2)).requires_grad_()
runs = [0]


def block(x, scale=1.0):
    runs[0] += 1
    return (dropout((x @ w).tanh(), 0.5) @ w).sin() * scale


def twice(x):
    return checkpoint(block, checkpoint(block, x, use_reentrant=False).cos(), use_reentrant=False)


def outcome(function):
    """Result, gradients and the next random number of a program."""
    rl.manual_seed(3)
    runs[0], w.grad, x.grad = 0, None, None
    y = function(x)
    y.exp().sum().backward()
    return [y.tolist(), w.grad.tolist(), x.grad.tolist(), rl.rand(1).item()]


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": True},
        {"use_reentrant": False},
        {"use_reentrant": False, "early_stop": False, "debug": True},
        {"use_reentrant": False, "context_fn": selective},
        {},
    ],
)
def test_a_checkpointed_function_has_the_bits_of_a_plain_call(options):
    plain = outcome(block)
    assert outcome(lambda x: checkpoint(block, x, **options)) == plain
    assert runs[0] == 2
    assert outcome(rl.compile(lambda x: checkpoint(block, x, **options))) == plain
    if not options.keys() & {"debug", "context_fn"}:  # they look at operators, of which a compiled function has none
        compiled = rl.compile(block)
        assert outcome(lambda x: checkpoint(compiled, x, **options)) == plain


def test_checkpoints_nest():
    plain = outcome(lambda x: block(block(x).cos()))
    assert outcome(lambda x: checkpoint(twice, x, use_reentrant=False)) == plain
    assert outcome(rl.compile(lambda x: checkpoint(twice, x, use_reentrant=False))) == plain


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_sequence_is_cut_into_segments(reentrant):
    layers = rl.nn.Sequential(*[rl.nn.Linear(8, 8) for _ in range(5)])
    plain = outcome(lambda x: layers(x) + 0 * w.sum())
    got = outcome(lambda x: checkpoint_sequential(layers, 2, x, use_reentrant=reentrant) + 0 * w.sum())
    assert got == plain
    with pytest.raises(rl.ArgumentError, match="6 segments of 5"):
        checkpoint_sequential(layers, 6, x)


@pytest.mark.parametrize(
    ("options", "kept"),
    [(None, 3), ({"use_reentrant": False}, 0), ({"use_reentrant": True}, 0), ({"context_fn": selective}, 1)],
)
def test_memory_is_released_between_the_passes(options, kept):
    storages = []

    def function(x):
        values = [x.sin(), x @ w]  # the derivative of cos reads the first, that of exp its result, that of sqrt also
        values += [values[0].cos(), values[1].exp()]
        values.append((values[3] + 1).sqrt())
        storages[:] = [weakref.ref(item.backing) for item in values]
        return values[2] + values[4]

    y = function(x) if options is None else checkpoint(function, x, **{"use_reentrant": False, **options})
    alive = sum(reference() is not None for reference in storages)
    assert alive == kept
    y.sum().backward()
    del y
    assert not any(reference() is not None for reference in storages)


@pytest.mark.parametrize("early", [True, False])
def test_a_second_run_ends_early_unless_told_otherwise(early):
    reached = []

    def function(x):
        y = x.sin()
        reached.append(True)
        return y + 1

    with set_checkpoint_early_stop(early):
        checkpoint(function, x, use_reentrant=False, early_stop=not early).sum().backward()
    assert len(reached) == (1 if early else 2)


def test_gradients_of_gradients_and_of_some_inputs():
    y = (x.sin() * x).exp()
    expected = rl.autograd.grad(rl.autograd.grad(y.sum(), x, create_graph=True)[0].square().sum(), x)[0]
    z = checkpoint(lambda x: (x.sin() * x).exp(), x, use_reentrant=False)
    (first,) = rl.autograd.grad(z.sum(), x, create_graph=True)
    assert rl.equal(rl.autograd.grad(first.square().sum(), x)[0], expected)
    reentrant = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    for act in (
        lambda: rl.autograd.grad(reentrant.sum(), x),
        lambda: reentrant.sum().backward(create_graph=True),
    ):
        with pytest.raises(rl.NotSupportedError, match="use_reentrant=True"):
            act()


def test_a_graph_that_is_kept_can_be_run_again():
    for options in ({}, {"context_fn": selective}):
        y = checkpoint(block, x, use_reentrant=False, **options)
        rl.manual_seed(1)
        first = rl.autograd.grad(y.sum(), (x, w), retain_graph=True)
        rl.manual_seed(2)
        second = rl.autograd.grad(y.sum(), (x, w))
        assert all(rl.equal(a, b) for a, b in zip(first, second, strict=True))


def test_random_numbers_are_drawn_anew_where_they_are_not_preserved():
    y = checkpoint(lambda x: dropout(x, 0.5) * x, rl.ones(64).requires_grad_(), use_reentrant=False)
    leaf = rl.ones(64).requires_grad_()
    y = checkpoint(lambda x: (x * rl.rand(64)).exp(), leaf, use_reentrant=False, preserve_rng_state=False)
    y.sum().backward()
    assert not rl.equal(leaf.grad, y.detach() * y.detach().log())


def test_autocast_is_that_of_the_first_run():
    def function(x):
        return (x @ w).sin()

    with rl.autocast("cpu", dtype=rl.bfloat16):
        y, z = checkpoint(function, x, use_reentrant=False), function(x)
    expected = rl.autograd.grad(z.float().sum(), (x, w))
    assert all(rl.equal(a, b) for a, b in zip(rl.autograd.grad(y.float().sum(), (x, w)), expected, strict=True))


def sines(counts):
    """A function that applies sin another number of times at each call."""
    times = iter(counts)
    return lambda x: functools.reduce(lambda value, _: value.sin(), range(next(times)), x)


@pytest.mark.parametrize("early", [True, False])
def test_a_function_that_does_not_repeat_itself_is_an_error(early):
    for first, second in ((3, 2), (2, 3)):
        y = checkpoint(sines([first, second]), x, use_reentrant=False, early_stop=early, debug=True)
        if early and second > first:
            y.sum().backward()  # ends where enough is there
            continue
        with pytest.raises(CheckpointError) as caught:
            y.sum().backward()
        assert caught.value.code == "G020" and "operators of the second run" in caught.value.render()


def test_other_shapes_are_an_error_unless_nothing_is_checked():
    sizes = iter([5, 5, 1, 1])
    y, z = [
        checkpoint(lambda x: x[: next(sizes)].sin(), x, use_reentrant=False, determinism_check=check)
        for check in ("none", "default")
    ]
    y.sum().backward()
    with pytest.raises(CheckpointError) as caught:
        z.sum().backward()
    assert caught.value.code == "G020"


def test_a_policy_sees_both_runs_and_keeps_results():
    seen = []

    def policy(context, op, *args, **kwargs):
        seen.append((context.is_recompute, op.__name__))
        return CheckpointPolicy.MUST_SAVE if op.__name__ == "sin" else CheckpointPolicy.PREFER_RECOMPUTE

    context_fn = functools.partial(create_selective_checkpoint_contexts, policy)
    checkpoint(lambda x: (x.sin() * 2).exp(), x, use_reentrant=False, context_fn=context_fn).sum().backward()
    assert (False, "sin") in seen and (True, "sin") in seen and (False, "mul") in seen
    with pytest.raises(rl.ArgumentError, match="no such operator"):
        create_selective_checkpoint_contexts(["no_such_operator"])


@pytest.mark.parametrize("allowed", [True, False])
def test_what_was_kept_must_not_be_changed(allowed):
    kept = []

    def function(x):
        kept.append(x.sin())
        return kept[0].exp().cos()

    contexts = functools.partial(create_selective_checkpoint_contexts, ["sin"], allow_cache_entry_mutation=allowed)
    y = checkpoint(function, x, use_reentrant=False, context_fn=contexts)
    with rl.no_grad():
        kept[0].mul_(2)
    if allowed:
        y.sum().backward()
    else:
        with pytest.raises(rl.AutogradError) as caught:
            y.sum().backward()
        assert caught.value.code == "G003"


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": True, "debug": True},
        {"use_reentrant": True, "scale": 2.0},
        {"use_reentrant": True, "context_fn": selective},
        {"use_reentrant": False, "determinism_check": "often"},
    ],
)
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(rl.ArgumentError):
        checkpoint(block, x, **options)


def test_debugging_can_be_turned_on_for_all_calls():
    with set_checkpoint_debug_enabled(True):
        y = checkpoint(sines([2, 1]), x, use_reentrant=False)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    assert "sin(f32[5, 8])" in caught.value.render()
