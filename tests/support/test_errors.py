"""Errors and warnings: text, classes, values, hints, user's line, pickling."""

import copy
import os
import pickle
import traceback
import warnings

import numpy as np
import pytest

from rushlight.support import errors
from rushlight.support.errors import CODES
from rushlight.support.errors.classes import Report
from rushlight.support.errors.registry import FAMILIES, register_code
from rushlight.support.printing import printed

TORCH_CLASSES = {
    "ShapeError": RuntimeError,
    "DTypeError": RuntimeError,
    "DTypeArgumentError": TypeError,
    "IndexRangeError": IndexError,
    "ArgumentTypeError": TypeError,
    "ArgumentValueError": ValueError,
    "ArgumentRuntimeError": RuntimeError,
    "StateKeyError": KeyError,
    "MissingNameError": AttributeError,
    "NotSupportedError": NotImplementedError,
    "AutogradError": RuntimeError,
    "OutOfMemoryError": RuntimeError,
    "DeviceError": RuntimeError,
    "CheckpointError": RuntimeError,
    "CheckpointFileError": OSError,
}


class Described:
    def __error_text__(self) -> str:
        return "f32[8, 16]"


def inner_sizes_differ() -> errors.RushlightError:
    with pytest.raises(errors.ShapeError) as caught:
        errors.fail("S003", "matmul: inner sizes differ", a=Described(), b=(32, 4), hint="transpose one operand")
    return caught.value


def test_text_shows_values_line_and_hint():
    error = inner_sizes_differ()
    lines = error.render().splitlines()
    assert lines[0] == "rushlight.ShapeError S003: matmul: inner sizes differ"
    assert lines[1:3] == ["    a: f32[8, 16]", "    b: (32, 4)"]
    assert lines[3].startswith("  test_errors.py:") and 'errors.fail("S003"' in lines[3]
    assert lines[4] == "  hint: transpose one operand"
    assert (error.code, error.operation, error.hint) == ("S003", "matmul", "transpose one operand")
    assert error.values == {"a": "f32[8, 16]", "b": "(32, 4)"}


def test_traceback_ends_with_the_text_and_notes():
    error = inner_sizes_differ()
    error.add_note("while tracing step()")
    printed_lines = "".join(traceback.format_exception(error))
    assert printed_lines.endswith(error.render() + "\n")
    assert error.render().endswith("\nwhile tracing step()")


def test_pickle_and_copy_keep_everything():
    error = inner_sizes_differ()
    error.add_note("while tracing step()")
    for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert twin.render() == error.render()
        assert type(twin) is type(error)


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_class_is_also_what_pytorch_raises(name: str):
    assert issubclass(getattr(errors, name), TORCH_CLASSES[name])
    assert issubclass(getattr(errors, name), errors.RushlightError)


def test_every_class_can_be_raised_and_pickled():
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Report)]
    assert len(classes) > 25
    for one in classes:
        report = one("S001", "add: shapes differ", {"a": "1"}, None, "broadcast")
        assert str(report) == "add: shapes differ\n    a: 1\n  hint: broadcast"
        assert str(pickle.loads(pickle.dumps(report))) == str(report)
        assert one.__module__ == "rushlight"


def test_unregistered_code_is_an_internal_error():
    with pytest.raises(errors.InternalError, match="S999 is not a registered error code"):
        errors.fail("S999", "matmul: no")
    with pytest.raises(errors.InternalError, match="K002 is the code of a warning"):
        errors.fail("K002", "cache: no")


def test_registry_refuses_bad_and_double_codes():
    with pytest.raises(ValueError, match="twice"):
        register_code("S003", errors.ShapeError, "again", "again")
    for bad in ("s003", "S3", "Z001", "S00x"):
        with pytest.raises(ValueError, match="three digits"):
            register_code(bad, errors.ShapeError, "bad", "bad")


def test_every_code_is_explained():
    for code, entry in CODES.items():
        assert code == entry.code and code[0] in FAMILIES
        assert not entry.title.endswith("."), code
        assert entry.explanation.endswith("."), code
        assert entry.remedy is None or (entry.remedy and not entry.remedy.endswith(".")), code


def test_require_passes_or_raises():
    errors.require(True, "S003", "matmul: inner sizes differ")
    with pytest.raises(errors.ShapeError) as caught:
        errors.require([], "S003", "matmul: inner sizes differ", code=1, message=2)
    assert caught.value.values == {"code": "1", "message": "2"}
    assert caught.value.hint == CODES["S003"].remedy


def test_cause_is_kept():
    with pytest.raises(errors.CheckpointError) as caught:
        try:
            os.stat("/nowhere/at/all")
        except OSError as cause:
            raise errors.error("P001", "load: no such file", path="/nowhere/at/all") from cause
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_warning_is_given_once_per_key_at_the_users_line():
    errors.forget_warnings()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for key in ("a", "a", "b", "a"):
            errors.warn("K002", "cache: entry is corrupt", key=key, entry=key)
    assert [str(one.message).splitlines()[1] for one in given] == ["    entry: 'a'", "    entry: 'b'"]
    assert all(one.filename == __file__ and issubclass(one.category, errors.CacheWarning) for one in given)
    errors.forget_warnings()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("x", "'x'"),
        (None, "None"),
        (float, "float"),
        ((8,), "(8,)"),
        ([1, (2, 3)], "[1, (2, 3)]"),
        (np.zeros((2, 3), np.float32), "ndarray float32[2, 3]"),
        (range(3), "range range(0, 3)"),
        (object(), "<object>"),
    ],
)
def test_values_are_printed_with_their_types(value: object, text: str):
    assert printed(value) == text


def test_values_are_printed_short_and_never_fail():
    class Broken:
        def __repr__(self) -> str:
            raise OSError("no")

    assert printed(Broken()) == "<Broken that cannot be printed: OSError>"
    assert len(printed("x" * 1000)) == 120
    assert printed("/folder/" * 100) == repr("/folder/" * 100), "a path that is cut cannot be opened"
    assert printed(list(range(1000))).endswith("1000 in all]")
