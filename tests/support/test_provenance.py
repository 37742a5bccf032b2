"""User's frames: which they are, what they say, what they cost."""

import functools
import pickle
import timeit
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rushlight
import rushlight as rl
from rushlight.support import provenance
from rushlight.support.provenance import Frame, Stack, user_frame, user_frames

PACKAGE = Path(rushlight.__file__).parent


def call_from(filename: str):
    """Return what `user_frame` says when called through a function of that file."""
    scope = {"user_frame": user_frame, "user_frames": user_frames}
    exec(compile("def inner():\n    return user_frame(), user_frames(2)", filename, "exec"), scope)
    return scope["inner"]()


def test_own_frames_are_skipped():
    for filename in (str(PACKAGE / "eager" / "tensor.py"), "<rushlight guards>", functools.__file__):
        frame, frames = call_from(filename)
        assert frame.filename == __file__ and frame.function == "call_from"
        assert [one.function for one in frames] == ["call_from", "test_own_frames_are_skipped"]


def test_users_frames_are_seen():
    for filename in ("<stdin>", "/home/me/rushlight/model.py", str(PACKAGE / "demo" / "train.py")):
        frame, frames = call_from(filename)
        assert (frame.filename, frame.line, frame.function) == (filename, 2, "inner")
        assert frames[0] == frame and frames[1].function == "call_from"


def test_frame_shows_its_source():
    frame = user_frame()
    assert frame is not None
    assert frame.source == "frame = user_frame()"
    assert str(frame).endswith(" in test_frame_shows_its_source:  frame = user_frame()")
    assert str(Frame("<gone>", 3, "step")) == "<gone>:3 in step"
    twin = pickle.loads(pickle.dumps(frame))
    assert twin == frame and hash(twin) == hash(frame)


def test_stack_gives_the_frames_that_are_looked_up_at_each_call():
    def ask(stack: Stack):
        return stack.frames(), user_frames(3)

    def run(limit: int):
        stack = Stack(limit)
        first, expected = ask(stack)
        assert first == expected[:limit]
        again = [ask(stack) for _ in range(2)]
        assert all(found == expected[:limit] for found, expected in again)
        assert again[0][0] is again[1][0] and (again[0][0] == first) == (limit == 1)
        return stack

    def run_below(limit: int):
        return run(limit)

    for limit in (1, 2, 3):
        stack = run_below(limit)  # another caller's frames are not those that the stack has seen
        found, expected = ask(stack)
        assert found == expected[:limit]


def test_stack_made_by_another_thread_sees_this_one():
    with ThreadPoolExecutor(1) as pool:
        stack = pool.submit(lambda: Stack(3)).result()
    assert stack.frames() == user_frames(3)


@pytest.mark.parametrize("call", [lambda function: function, rl.compile])
def test_errors_name_what_the_users_line_has_called(call):
    layer, value = rl.nn.Linear(2, 2), [1.0]
    with pytest.raises(rl.RushlightError, match="Linear: a tensor is expected"):
        call(lambda: layer(value))()
    with pytest.raises(rl.RushlightError, match="linear: a tensor is expected"):
        call(lambda: rl.nn.functional.linear(value, layer.weight))()


def test_first_frame_is_cheap():
    """The budget is 1.5 us; five times that is left for busy machines."""
    best = min(timeit.repeat(user_frame, number=2000, repeat=7)) / 2000
    assert best < 7.5e-6, f"{best * 1e6:.2f} us"
    user_frame()
    assert provenance._is_users[__file__]
