"""Copies, pickles and files of tensors: what a program has added to them, and the memory that they share."""

import copy
import io
import pickle

import pytest

import rushlight as rl


class Named(rl.Tensor):
    pass


class Slotted(rl.Tensor):
    __slots__ = ("__hidden", "held")

    @staticmethod
    def __new__(cls, held):
        result = rl.Tensor._make_subclass(cls, held.to("meta"))
        result.held = held
        result.__hidden = "hidden"
        return result

    def clone(self):
        return type(self)(self.held.clone())

    @property
    def hidden(self):
        return self.__hidden


class Told(Slotted):
    def __getstate__(self):
        return "told", self.held, vars(self)

    def __setstate__(self, state):
        self.mark, self.held, attributes = state
        vars(self).update(attributes)


def saved(x):
    file = io.BytesIO()
    rl.save(x, file)
    file.seek(0)
    with rl.serialization.safe_globals([Named, Slotted, Told]):
        return rl.load(file)


def pickled(x):
    return pickle.loads(pickle.dumps(x))


WAYS = pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickled, saved])


@WAYS
@pytest.mark.parametrize("cls", [rl.Tensor, Named])
def test_attributes_and_classes_are_kept(way, cls):
    x = rl.ones(2).as_subclass(cls)
    x.tags = ["a", x]
    found = way(x)
    assert type(found) is cls and found.tags[0] == "a" and rl.equal(found, x)
    assert (found.tags is x.tags) == (way is copy.copy) and (found.tags[1] is x) == (way is copy.copy)
    assert (found.data_ptr() == x.data_ptr()) == (way is copy.copy)


@WAYS
def test_slots_are_kept(way):
    x = Slotted(rl.ones(2))
    x.tag = [1]
    found = way(x)
    assert (
        type(found) is Slotted and found.held.tolist() == [1.0, 1.0] and found.tag == [1] and found.hidden == "hidden"
    )


@pytest.mark.parametrize("way", [copy.copy, pickled, saved])
def test_classes_say_what_is_kept(way):
    x = Told(rl.ones(2))
    x.tag = [1]
    found = way(x)
    assert type(found) is Told and found.mark == "told" and found.held.tolist() == [1.0, 1.0] and found.tag == [1]


@WAYS
def test_parameters_of_subclasses_keep_their_class(way):
    x = rl.nn.Parameter(rl.ones(2).as_subclass(Named))
    assert type(x) is Named and isinstance(x, rl.nn.Parameter) and x.requires_grad and x.is_leaf
    x.tag = [1]
    found = way(x)
    assert type(found) is Named and isinstance(found, rl.nn.Parameter) and found.requires_grad and found.tag == [1]
    module = rl.nn.Module()
    module.weight = x
    assert next(module.parameters()) is x
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_deep_copies_of_parameters_have_no_attributes():
    x = rl.nn.Parameter(rl.ones(2))
    x.tag = [1]
    assert not hasattr(copy.deepcopy(x), "tag") and copy.copy(x).tag is x.tag


def test_tensors_that_are_copied_together_share_what_they_shared():
    whole = rl.zeros(4, 3)
    rows, column = copy.deepcopy([whole[1:3], whole.t()[0]])
    column.fill_(5.0)
    assert rows.tolist() == [[5.0, 0.0, 0.0]] * 2 and not whole.any()
    assert rows.stride() == (3, 1) and rows.storage_offset() == 3 and column.stride() == (3,)
    spread = copy.deepcopy(rl.arange(3).expand(2, 3))
    assert spread.stride() == (0, 1) and spread.tolist() == [[0, 1, 2]] * 2
    assert copy.deepcopy(rl.ones(0, 2)).shape == (0, 2) and copy.deepcopy(rl.tensor(3)).item() == 3


def test_wrappers_whose_clones_are_of_another_class_are_not_copied_deeply():
    class Odd(Slotted):
        def clone(self):
            return self.held.clone()

    with pytest.raises(RuntimeError, match="a clone of Odd"):
        copy.deepcopy(Odd(rl.ones(2)))
