"""Keyed jagged data against Python lists: random programs, and the cases that one may get wrong."""

import random

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture import graph_count
from rushlight.recsys import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    JaggedTensor,
    KeyedJaggedTensor,
    KeyedTensor,
)
from rushlight.recsys.modules import KTRegroupAsDict
from rushlight.recsys.sparse import ComputeJTDictToKJT, ComputeKJTToJTDict, jt_is_equal, kjt_is_equal
from rushlight.utils._pytree import tree_flatten, tree_unflatten

SAMPLE = 60


class Lists:
    """The same data as nested lists: for each key rows of (value, weight)."""

    def __init__(self, rows: dict[str, list[list[tuple[int, float]]]], weighted: bool, varies: bool):
        self.rows, self.weighted, self.varies = rows, weighted, varies

    @staticmethod
    def drawn(rng: random.Random, prefix: str = "k") -> "Lists":
        varies, batch = rng.random() < 0.4, rng.randint(0, 4)
        rows = {
            f"{prefix}{place}": [
                [(rng.randint(0, 99), rng.randint(0, 8) / 2) for _ in range(rng.choice([0, 0, 1, 2, 5]))]
                for _ in range(rng.randint(0, 4) if varies else batch)
            ]
            for place in range(rng.randint(1, 5))
        }
        return Lists(rows, rng.random() < 0.5, varies)

    def tensors(self, rng: random.Random) -> KeyedJaggedTensor:
        flat = [row for rows in self.rows.values() for row in rows]
        values = rl.tensor([value for row in flat for value, _ in row], dtype=rl.int64)
        weights = rl.tensor([weight for row in flat for _, weight in row], dtype=rl.float32)
        lengths = [len(row) for row in flat]
        strides = [[len(rows)] for rows in self.rows.values()] if self.varies else None
        kind = rng.choice([rl.int32, rl.int64])
        given = {"lengths": rl.tensor(lengths, dtype=kind)}
        if rng.random() < 0.5:
            given = {"offsets": rl.tensor([0, *np.cumsum(np.array(lengths, np.int64))], dtype=kind)}
        return KeyedJaggedTensor(
            list(self.rows),
            values,
            weights if self.weighted else None,
            **given,
            stride_per_key_per_rank=strides,
        )

    def chosen(self, keys: list[str]) -> "Lists":
        return Lists({key: self.rows[key] for key in keys}, self.weighted, self.varies)


def assert_equal(found: KeyedJaggedTensor, expected: Lists):
    assert found.keys() == list(expected.rows)
    assert found.stride_per_key() == [len(rows) for rows in expected.rows.values()]
    assert found.length_per_key() == [sum(map(len, rows)) for rows in expected.rows.values()]
    flat = [pair for rows in expected.rows.values() for row in rows for pair in row]
    assert found.values().tolist() == [value for value, _ in flat]
    assert found.lengths().tolist() == [len(row) for rows in expected.rows.values() for row in rows]
    assert found.offsets().tolist() == [0, *np.cumsum(found.lengths().numpy(), dtype=np.int64)]
    if expected.weighted:
        assert found.weights().tolist() == [weight for _, weight in flat]
    else:
        assert found.weights_or_none() is None
    for key, rows in expected.rows.items():
        assert_rows(found[key], rows, expected.weighted)
    assert list(found.to_dict()) == list(expected.rows)


def assert_rows(found: JaggedTensor, rows, weighted: bool):
    assert [row.tolist() for row in found.to_dense()] == [[value for value, _ in row] for row in rows]
    if weighted:
        assert [row.tolist() for row in found.to_dense_weights()] == [[weight for _, weight in row] for row in rows]
    longest = max(map(len, rows), default=0)
    for length in (longest, longest // 2, longest + 2):
        padded = found.to_padded_dense(None if length == longest else length, -1)
        assert padded.tolist() == [([v for v, _ in row] + [-1] * length)[:length] for row in rows]


def permuted(rng, lists, found):
    keys = rng.sample(list(lists.rows), rng.randint(1, len(lists.rows)))
    places = [list(lists.rows).index(key) for key in keys]
    return lists.chosen(keys), found.permute(places)


def split(rng, lists, found):
    keys = list(lists.rows)
    cut = rng.randint(0, len(keys) - 1)
    first, second = found.split([cut, len(keys) - cut])
    assert first.keys() == keys[:cut]
    return lists.chosen(keys[cut:]), second


def joined(rng, lists, found):
    other = Lists.drawn(rng, rng.choice("xyz") + str(len(lists.rows)))
    other.weighted = lists.weighted
    if set(other.rows) & set(lists.rows):
        return lists, found
    both = Lists({**lists.rows, **other.rows}, lists.weighted, True)
    return both, KeyedJaggedTensor.concat([found, other.tensors(rng)])


def rebuilt(rng, lists, found):
    return lists, KeyedJaggedTensor.from_jt_dict(found.to_dict())


def flattened(rng, lists, found):
    leaves, structure = tree_flatten(found)
    return lists, tree_unflatten(leaves, structure)


STEPS = [permuted, split, joined, rebuilt, flattened]


def run(seed: int):
    rng = random.Random(seed)
    lists = Lists.drawn(rng)
    found = lists.tensors(rng)
    assert_equal(found, lists)
    for _ in range(rng.randint(0, 3)):
        lists, found = rng.choice(STEPS)(rng, lists, found)
        assert_equal(found, lists)


@pytest.mark.row("9.1")
@pytest.mark.parametrize("part", range(4))
def test_the_algebra_is_that_of_lists(part: int):
    """A sample: programs of 10,000 further seeds have been run."""
    for seed in range(part * SAMPLE, (part + 1) * SAMPLE):
        run(seed)


def test_a_batch_passes_compiled_code():
    rl.compiler.reset()

    @rl.compile(fullgraph=True)
    def turned(given: KeyedJaggedTensor):
        moved = given.permute([1, 0])
        return moved, moved.lengths().reshape(2, -1).sum(1), moved.values() * 2

    rng = random.Random(0)
    for batch in (3, 2, 5):
        rows = {key: [[(rng.randint(0, 9), 1.0)] * rng.randint(0, 3) for _ in range(batch)] for key in "ab"}
        lists = Lists(rows, True, False)
        found, counts, doubled = turned(lists.tensors(random.Random(1)))
        assert_equal(found, lists.chosen(["b", "a"]))
        assert counts.tolist() == [sum(map(len, rows[key])) for key in "ba"]
        assert doubled.tolist() == [2 * value for value in found.values().tolist()]


def test_batches_come_from_a_loader():
    def batch_of(rows):
        lengths = rl.tensor([len(row) for row in rows])
        return KeyedJaggedTensor(["a"], rl.tensor([value for row in rows for value in row]), lengths=lengths)

    loader = rl.utils.data.DataLoader([[1], [2, 3], [4], [5, 6]], batch_size=2, collate_fn=batch_of)
    assert [batch["a"].to_dense()[1].tolist() for batch in loader] == [[2, 3], [5, 6]]


def test_padded_rows_have_gradients():
    values = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    jagged = JaggedTensor(values, lengths=rl.tensor([2, 0, 1]))
    (jagged.to_padded_dense(1) * 5).sum().backward()
    assert values.grad.tolist() == [5, 0, 5]
    dense = JaggedTensor.from_dense_lengths(rl.tensor([[1, 2], [3, 4]]), rl.tensor([1, 2]))
    assert dense.values().tolist() == [1, 3, 4]
    assert [row.tolist() for row in JaggedTensor.from_dense([rl.ones(2), rl.ones(0)]).to_dense()] == [[1, 1], []]


def test_empty_data():
    assert JaggedTensor.empty().to_dense() == []
    none = KeyedJaggedTensor.empty()
    assert (none.keys(), none.stride(), none.length_per_key(), none.split([])) == ([], 0, [], [])
    like = KeyedJaggedTensor.empty_like(KeyedJaggedTensor(["a"], rl.tensor([1]), lengths=rl.tensor([1])))
    assert (like.keys(), like.stride(), like.values().dtype) == ([], 0, rl.int64)


def test_columns_by_key():
    first = KeyedTensor.from_tensor_list(["a", "b"], [rl.ones(2, 1), rl.zeros(2, 3)])
    second = KeyedTensor(["c"], [2], rl.full((2, 2), 7.0))
    assert first["b"].shape == (2, 3)
    assert first.offset_per_key() == [0, 1, 4]
    left, right = KeyedTensor.regroup([first, second], [["c", "a"], ["b"]])
    assert (left.tolist(), right.shape) == ([[7, 7, 1], [7, 7, 1]], (2, 3))
    assert list(KeyedTensor.regroup_as_dict([first, second], [["c"]], ["user"])) == ["user"]
    doubled = rl.compile(lambda keyed: KeyedTensor(keyed.keys(), keyed.length_per_key(), keyed.values() * 2))(second)
    assert doubled["c"].tolist() == [[14, 14], [14, 14]]
    with pytest.raises(ValueError, match="two tensors"):
        KeyedTensor.regroup([first, first], [["a"]])
    with pytest.raises(KeyError, match="no key"):
        first["z"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [1, 1]}, "do not sum"),
        ({"lengths": [4, -1]}, "negative"),
        ({"lengths": [1, 1, 1]}, "keys times the batch"),
        ({"offsets": [0, 1, 2]}, "go from 0"),
        ({"offsets": [0, 4, 3]}, "negative"),
        ({"keys": ["a", "a"]}, "twice"),
        ({"weights": [1.0]}, "a weight for each"),
        ({"stride_per_key_per_rank": [[2], [1]]}, "keys times the batch"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"keys": ["a", "b"], "lengths": [1, 2], **change}
    if "offsets" in change:
        del given["lengths"]
    keys, strides = given.pop("keys"), given.pop("stride_per_key_per_rank", None)
    tensors = {name: rl.tensor(numbers) for name, numbers in given.items()}
    with pytest.raises(ValueError, match=message):
        KeyedJaggedTensor(keys, rl.tensor([1, 2, 3]), stride_per_key_per_rank=strides, **tensors)


@pytest.mark.parametrize("fullgraph", [False, True], ids=["parts", "whole"])
def test_all_batches_have_one_graph(fullgraph: bool):
    rl.compiler.reset()
    collection = EmbeddingBagCollection([EmbeddingBagConfig(50, 4, "t", feature_names=["a", "b"])])
    compiled = rl.compile(lambda given: collection(given).values(), fullgraph=fullgraph)
    rng = np.random.default_rng(0)
    for batch in (4, 1, 7, 0, 512):
        lengths = rng.integers(0, 4, 2 * batch)
        ids = rl.tensor(rng.integers(0, 50, lengths.sum()))
        given = KeyedJaggedTensor(["a", "b"], ids, lengths=rl.tensor(lengths))
        np.testing.assert_array_equal(compiled(given).detach().numpy(), collection(given).values().detach().numpy())
    assert graph_count() == 1
    weighted = KeyedJaggedTensor(["b", "a"], ids, lengths=rl.tensor(lengths))
    np.testing.assert_array_equal(compiled(weighted).detach().numpy(), collection(weighted).values().detach().numpy())
    assert graph_count() == 2  # keys in another order are another program


def test_an_object_that_a_compiled_function_changes_is_not_taken_apart():
    def change(given: JaggedTensor) -> rl.Tensor:
        given._values = given._values + 1
        return given._values

    given = JaggedTensor(rl.tensor([1, 2]), lengths=rl.tensor([2]))
    assert rl.compile(change)(given).tolist() == given.values().tolist() == [2, 3]
    with pytest.raises(rl.RushlightError, match="taken apart changes") as caught:
        rl.compile(change, fullgraph=True)(given)
    assert caught.value.code == "C036" and given.values().tolist() == [2, 3]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("lengths", "code"),
    [([1, 3], "E003"), ([0, 0], "E003"), ([4, -1], "E004"), ([-1, 1], "E004")],
    ids=["more", "fewer", "negative", "negative-first"],
)
def test_lengths_that_do_not_divide_the_values_are_refused(lengths: list[int], code: str, compiled: bool):
    def sums(values: rl.Tensor, lengths: rl.Tensor) -> rl.Tensor:
        given = KeyedJaggedTensor(["a", "b"], values, lengths=lengths)
        return given.offsets() + given.values().sum()

    run = rl.compile(sums, fullgraph=True) if compiled else sums
    assert run(rl.tensor([5, 6, 7]), rl.tensor([1, 2])).tolist() == [18, 19, 21]
    with pytest.raises(rl.RushlightError) as caught:
        run(rl.tensor([5, 6, 7]), rl.tensor(lengths))
    assert caught.value.code == code and "test_keyed_jagged.py" in str(caught.value)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("offsets", "codes"),
    [
        ([0, 1, 2], {"E003"}),
        ([0, 0, 0], {"E003"}),
        ([0, 1, 4], {"E003", "I001"}),
        ([0, 2, 1], {"E003", "E004", "I001"}),
    ],
    ids=["early", "none", "late", "back"],
)
def test_offsets_that_do_not_divide_the_values_are_refused(offsets: list[int], codes: set[str], compiled: bool):
    def sums(values: rl.Tensor, offsets: rl.Tensor) -> rl.Tensor:
        given = KeyedJaggedTensor(["a", "b"], values, offsets=offsets)
        return given.lengths() + given.values().sum()

    run = rl.compile(sums, fullgraph=True) if compiled else sums
    assert run(rl.tensor([5, 6, 7]), rl.tensor([0, 1, 3])).tolist() == [19, 20]
    with pytest.raises(rl.RushlightError) as caught:
        run(rl.tensor([5, 6, 7]), rl.tensor(offsets))
    assert caught.value.code in codes and "test_keyed_jagged.py" in str(caught.value)


def test_a_key_may_be_taken_twice():
    given = KeyedJaggedTensor(["a", "b"], rl.tensor([1, 2, 3]), lengths=rl.tensor([1, 0, 1, 1]))
    found = given.permute([1, 0, 1])
    assert found.keys() == ["b", "a", "b"]
    assert (found.values().tolist(), found.lengths().tolist()) == ([2, 3, 1, 2, 3], [1, 1, 1, 0, 1, 1])


def test_a_batch_with_inverse_indices_is_that_of_examples():
    inverse = ["a"], rl.tensor([[0, 1, 1, 0, 0]])
    given = KeyedJaggedTensor(
        ["a"],
        rl.tensor([1, 2, 3]),
        lengths=rl.tensor([1, 2]),
        stride_per_key_per_rank=rl.tensor([[2]]),
        inverse_indices=inverse,
    )
    assert (given.stride(), given.stride_per_key(), given.permute([0]).stride()) == (5, [2], 5)
    assert given.lengths_offset_per_key() == [0, 2]


def test_what_is_known_of_keys_and_equality():
    given = KeyedJaggedTensor(["a", "b"], rl.tensor([1, 2, 3]), rl.ones(3), lengths=rl.tensor([1, 0, 1, 1]))
    assert given.offset_per_key_or_none() is None and given.length_per_key_or_none() is None
    given.sync()
    assert (given.offset_per_key_or_none(), given.length_per_key_or_none()) == ([0, 1, 3], [1, 2])
    assert given.unsync().offset_per_key_or_none() is None
    half = given.to("cpu", dtype=rl.float16)
    assert (half.weights().dtype, half.values().dtype) == (rl.float16, rl.int64)
    parts = ComputeKJTToJTDict()(given)
    again = ComputeJTDictToKJT()(parts)
    assert kjt_is_equal(given, again) and not kjt_is_equal(given, half) and not kjt_is_equal(given, 3)
    assert not kjt_is_equal(given, again.permute([1, 0]))
    assert jt_is_equal(parts["a"], again["a"]) and not jt_is_equal(parts["a"], parts["b"])


def test_columns_are_put_together_by_a_module():
    pooled = KeyedTensor(["a", "b", "c"], [1, 2, 1], rl.arange(8.0).reshape(2, 4))
    found = KTRegroupAsDict([["c", "a"], ["b"]], ["x", "y"], DataType.FP16)([pooled])
    assert found["x"].dtype == rl.float16 and found["x"].tolist() == [[3, 0], [7, 4]]
    assert found["y"].tolist() == [[1, 2], [5, 6]]
    with pytest.raises(ValueError, match="a name for each group"):
        KTRegroupAsDict([["a"]], [])


def test_what_methods_give_in_dicts_is_the_calls_own_behind_a_graph():
    def function(values: rl.Tensor) -> list[tuple[str, list[int], list[float]]]:
        keyed = KeyedJaggedTensor(["a", "b"], values * 2, lengths=rl.tensor([1, 2]))
        rows = keyed.to_dict()
        float(values.sum())  # ends a graph
        return [(key, one.lengths().tolist(), one.values().tolist()) for key, one in rows.items()]

    compiled = rl.compile(function, backend="eager")
    for values in (rl.arange(3.0), rl.ones(3)):
        assert compiled(values) == function(values)


ASKED = {
    "item": lambda keyed: keyed["b"].values(),
    "list": lambda keyed: KeyedJaggedTensor.concat([keyed]).values(),
    "items": lambda keyed: [keyed[key] for key in ("a", "b")][1].values(),
    "joined": lambda keyed: KeyedJaggedTensor.from_jt_dict({"x": keyed["a"], "y": keyed["b"]}).values(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("given", [True, False])
def test_a_graph_takes_what_each_calls_own_tensors_hold(asked: str, given: bool):
    def made(start: int) -> KeyedJaggedTensor:
        return KeyedJaggedTensor(["a", "b"], rl.arange(start, start + 3), lengths=rl.tensor([1, 2]))

    def function(keyed: KeyedJaggedTensor | int) -> list[int]:
        if isinstance(keyed, int):
            keyed = made(keyed)
            print(end="")  # ends a graph
        values = ASKED[asked](keyed)
        print(end="")
        return values.tolist()

    compiled = rl.compile(function, backend="eager")
    for start in range(3):
        expected = [start, start + 1, start + 2] if asked in ("list", "joined") else [start + 1, start + 2]
        assert compiled(made(start) if given else start) == expected
