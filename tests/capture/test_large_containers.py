"""Large containers of the state without tensors are Python's: no graph holds what a table or a vocabulary has."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.state import reachable
from rushlight.support import events

SIZE = 1500


class Record:
    def __init__(self, number: int) -> None:
        self.number = number


class Tables:
    """Containers of each kind, equal at each call."""

    def __init__(self) -> None:
        self.rows: list[Any] = [{"a": number, "b": [number, number + 1]} for number in range(SIZE)]
        self.words = {str(number): number for number in range(SIZE)}
        self.known = set(range(SIZE))
        self.last = deque(range(SIZE))
        self.raw = bytearray(SIZE)
        self.records = [Record(number) for number in range(SIZE)]
        self.counts = Counter(range(SIZE))
        self.ordered = OrderedDict.fromkeys(range(SIZE), 2)
        self.lists: defaultdict[int, list[int]] = defaultdict(list, {number: [number] for number in range(SIZE)})
        self.tensors: list[Any] = [*range(SIZE), rl.ones(2)]


TABLES = Tables()


def written(x: Any, at: int) -> Any:
    TABLES.rows[at]["a"] += 1
    TABLES.words[f"new {at}"] = at
    TABLES.known.add(-at)
    TABLES.last.append(at)
    TABLES.raw[at] = at
    return x * TABLES.rows[at]["a"]


def kept(x: Any, at: int) -> Any:
    TABLES.rows.append({"a": x * 2, "b": []})
    TABLES.tensors[at] = x + at
    return TABLES.rows[-1]["a"] + TABLES.tensors[at]


def counted(x: Any, at: int) -> Any:
    total = 0
    for record in TABLES.records:
        total += record.number * at
    return x + total


PROGRAMS: dict[str, Callable[[Any, int], Any]] = {
    "lookup": lambda x, at: x * TABLES.words[str(at)] + TABLES.words.get("no", 1),
    "rows": lambda x, at: (x + TABLES.rows[at]["a"]) * TABLES.rows[-at]["b"][1],
    "length": lambda x, at: x * len(TABLES.rows) + len(TABLES.words) + len(TABLES.last),
    "membership": lambda x, at: x * 2 if at in TABLES.known and str(at) in TABLES.words else x,
    "ends": lambda x, at: x * TABLES.last[-1] + TABLES.last[at],
    "bytes": lambda x, at: x + TABLES.raw[at] + len(TABLES.raw),
    "records": lambda x, at: x * TABLES.records[at].number,
    "counts": lambda x, at: x * TABLES.counts[at] + TABLES.counts.most_common(1)[0][1],
    "order": lambda x, at: x * next(iter(TABLES.ordered)) + TABLES.ordered[at],
    "made": lambda x, at: x * len(TABLES.lists[SIZE + at]) + TABLES.lists[at][0],
    "a tensor": lambda x, at: x * TABLES.tensors[-1] + TABLES.tensors[at],
    "a slice": lambda x, at: x * sum(TABLES.last) + sum([row["a"] for row in TABLES.rows[:at]]),
    "as a tensor": lambda x, at: x + rl.tensor(TABLES.tensors[:3]).sum() * at,
    "copies": lambda x, at: x * copy.deepcopy(TABLES.rows)[at]["a"],
    "identity": lambda x, at: x * 2 if TABLES.rows is vars(TABLES)["rows"] else x,
    "a loop": counted,
    "writes": written,
    "kept tensors": kept,
}


WHOLE = ("lookup", "membership", "records")  # also as one graph


@pytest.mark.parametrize(("name", "fullgraph"), [*zip(PROGRAMS, repeat(False)), *zip(WHOLE, repeat(True))])
def test_what_is_read_and_written_is_that_of_each_call(
    name: str, fullgraph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for wrapper in (lambda program: program, lambda program: rl.compile(program, fullgraph=fullgraph)):
        monkeypatch.setitem(globals(), "TABLES", Tables())
        program, found = wrapper(PROGRAMS[name]), list[Any]()
        for at in (1, 2, 3, 1, 2):
            found.append(program(rl.ones(2), at).tolist())
            TABLES.rows[2]["a"] = 7 * at
            TABLES.words["1"] = 5 + at
            TABLES.records[3].number += 1
        TABLES.rows = [{"a": 9, "b": [8, 7]}] * SIZE
        TABLES.words = dict.fromkeys(TABLES.words, 4)
        found += [program(rl.ones(2), 2).tolist(), len(TABLES.rows), list(TABLES.words), list(TABLES.last)]
        results.append([*found, [*TABLES.known], bytes(TABLES.raw), len(TABLES.lists), len(TABLES.counts)])
    assert results[0] == results[1]


def test_tracing_takes_no_time_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(reachable.Leaf):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self.path)

    def program(x: Any) -> Any:
        x = x * TABLES.words["3"]
        print(end="")
        return x + TABLES.rows[2]["b"][1]

    monkeypatch.setattr(reachable, "Leaf", Counted)
    monkeypatch.setitem(globals(), "TABLES", Tables())
    events.reset()
    assert rl.compile(program)(rl.ones(2)).tolist() == [6.0, 6.0]
    assert len(made) < SIZE
    assert any(event.code == "B030" for event in events.events("graph_break"))


def test_a_vocabulary_of_a_module_is_looked_up_by_python() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vocabulary = {str(number): number for number in range(SIZE)}
            self.table = nn.Embedding(SIZE, 3)

        def forward(self, words: list[str]) -> Any:
            return self.table(rl.tensor([self.vocabulary[word] for word in words])).sum(0)

    rl.compiler.reset()
    module = Words()
    compiled = rl.compile(module)
    for word in map(str, range(6)):
        assert compiled([word, "7"]).tolist() == module([word, "7"]).tolist()
    assert rl.compiler.graph_count() <= 2
    module.vocabulary["5"] = 0
    assert compiled(["5", "7"]).tolist() == module(["0", "7"]).tolist()
