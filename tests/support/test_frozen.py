"""Records made by `frozen` behave as frozen dataclasses with slots do."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, replace

import pytest

from rushlight.support.frozen import frozen


@frozen
class Point:
    """Two numbers."""

    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        """Their sum."""
        return self.x + self.y


@frozen
class Named(Point):
    """A point with a name; points of other classes are not equal to it."""

    name: str = "p"


@dataclass(frozen=True, slots=True)
class Twin:
    """The same by the standard library."""

    x: int
    y: int = 2


def test_records_are_equal_and_hashed_by_their_fields():
    assert Point(1) == Point(1, 2)
    assert Point(1) != Point(2)
    assert Point(1) != Twin(1)
    assert Point(1) != Named(1)
    assert hash(Point(1)) == hash(Point(1, y=2)) == hash(Twin(1))


def test_records_refuse_assignment():
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(point, name, 3)
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(point, name)
    assert not hasattr(point, "__dict__")


def test_records_print_as_dataclasses():
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert repr(Named(1)) == "Named(x=1, y=2, name='p')"


def test_functions_of_dataclasses_work():
    assert replace(Named(1), y=5) == Named(1, 5)
    assert asdict(Named(1)) == {"x": 1, "y": 2, "name": "p"}
    assert [item.name for item in fields(Named)] == ["x", "y", "name"]
    assert [item.default for item in fields(Point)][1] == fields(Twin)[1].default


def test_records_are_copied_pickled_and_matched():
    for again in (copy.copy(Named(3)), copy.deepcopy(Named(3)), pickle.loads(pickle.dumps(Named(3)))):
        assert again == Named(3)
    match Named(3, 4):
        case Named(x, y, name):
            assert (x, y, name) == (3, 4, "p")


def test_missing_and_unknown_fields_are_errors():
    with pytest.raises(TypeError, match="missing"):
        Point()
    with pytest.raises(TypeError, match="unexpected"):
        Point(1, z=2)


def test_a_class_keeps_its_own_methods():
    @frozen
    class Loud:
        text: str

        def __repr__(self) -> str:
            return self.text.upper()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loud) and self.text.lower() == other.text.lower()

    assert repr(Loud("a")) == "A"
    assert Loud("a") == Loud("A")
    assert hash(Loud("a")) == hash(Loud("a"))


def test_without_eq_each_record_is_itself():
    @frozen(eq=False)
    class Event:
        number: int

    assert Event(1) != Event(1)
    assert len({Event(1), Event(1)}) == 2
