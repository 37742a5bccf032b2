"""What a traced function did to containers: to those that it reaches, and to copies of those among its arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from rushlight.capture.source import StateSource
from rushlight.capture.state.places import MISSING, Leaf, entries_of, restore
from rushlight.capture.state.reachable import PLAIN, StateWalk, variables_of
from rushlight.capture.values import TAIL, Container, Deleted, Effect, Reached, Template, plain_key
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.eager.symbols import SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.support.errors import fail

WHOLE = slice(None)
_MOST = 1 << 10  # values of the state that are looked at for new objects


class Copy(NamedTuple):
    """The copy that a function is given of a list or dict among its arguments, and what was in it."""

    copy: object
    original: object
    text: str
    before: dict[object, object]

    @staticmethod
    def of(copy: object, original: object, text: str) -> Copy:
        """A copy as it is now."""
        return Copy(copy, original, text, entries_of(copy))

    def restore(self) -> None:
        """Gives the copy what was in it."""
        restore(self.copy, self.before)


def changed_state(walk: StateWalk, names: Callable[[object], str]) -> Iterator[tuple[Leaf, Any]]:
    """What the program has put in the place of what it reached, has added, or has taken away (MISSING)."""
    leaves = {(id(leaf.container), leaf.key): leaf for leaf in walk.leaves}

    def stays(leaf: Leaf | None, before: object, now: object) -> bool:
        if now is before or (leaf is not None and leaf.stand_in is not None and now is leaf.stand_in):
            return True
        return leaf is not None and isinstance(now, TracedNumber) and now.text == leaf.text(names)

    variables = [leaf for leaf in walk.leaves if id(leaf.container) not in walk.before]
    for leaf in (*variables, *walk.added):
        now = leaf.value if walk.is_of_others(leaf.owner_id, leaf.key) else leaf.now()
        if not stays(leaf, leaf.value, now):
            yield leaf, now
    for container, path, entries in walk.own_containers():
        before = walk.before[id(container)]

        def kept(
            key: object, now: object, container: object = container, before: dict[object, object] = before
        ) -> bool:
            return stays(leaves.get((id(container), key)), before[key], now)

        changed = changed_entries(before, entries, kept)
        if id(container) in walk.resized:
            count = min(len(before), len(entries))
            if len(entries) > count:
                yield Leaf(container, TAIL, MISSING, f"{path}[{count}:]", False), [*entries.values()][count:]
            # From the last one on: the others keep their places.
            changed = [(key, MISSING) for key in reversed(range(count, len(before)))]
            changed += [(key, entries[key]) for key in range(count) if not kept(key, entries[key])]
        for key, now in changed:
            leaf = leaves.get((id(container), key))
            if leaf is None:
                leaf = Leaf(container, key, before.get(key), f"{path}[{key!r}]", False)
                if key in before:
                    walk.leaves.append(leaf)  # no name in the function's code told of it: it is guarded from here on
            yield leaf, now
    for collection, path in walk.changed_collections():
        yield Leaf(collection, 0, MISSING, path, False), list(collection)  # all of it, whatever the key


def state_sources(
    changed: Sequence[tuple[Leaf, object]], walk: StateWalk, given: Collection[int], names: Callable[[object], str]
) -> dict[int, StateSource]:
    """Sources of the tensors that the program replaces, by identity. Each call reads the container's entry.

    Not of those that are also found elsewhere, as among the arguments (`given`), that it writes to, that are views or
    share memory, or that have gradients: such a program is for this one tensor.
    """
    sources: dict[int, StateSource] = {}
    counts = Counter([id(leaf.value) for leaf in walk.leaves] + [id(tensor) for tensor in walk.tensors])
    for leaf, now in changed:
        tensor = leaf.value
        if now is MISSING or not isinstance(tensor, Handle) or counts[id(tensor)] > 1 or id(tensor) in given:
            continue
        cell = None if tensor.node is None else tensor.node.cell
        if cell is not None and (cell.writes or cell.source is not tensor):
            continue
        if tensor.view_of is None and not tensor.keys & AUTOGRAD:
            sources[id(tensor)] = StateSource(f"held{len(sources)}", leaf.text(names))
    return sources


def changed_entries(
    before: Mapping[object, object], now: Mapping[object, object], stays: Callable[[object, object], bool]
) -> Iterator[tuple[object, object]]:
    """The entries to take away (MISSING) and those to set, in this order: then the order of entries is right too."""
    kept = [key for key in before if key in now]
    keys = list(now)
    pairs = enumerate(zip(kept, keys, strict=False))
    same = next((at for at, (key, other) in pairs if not _is_same_key(key, other)), len(kept))
    moved = set(keys[same:])
    for key in before:
        if key not in now or key in moved:
            yield key, MISSING
    for key, value in now.items():
        if key not in before or key in moved or not stays(key, value):
            yield plain_key(key), value


def _is_same_key(key: object, other: object) -> bool:
    """Whether a key is another one: the places in a list are made anew each time."""
    return key is other or (type(key) is type(other) is int and key == other)


def changed_arguments(copies: Sequence[Copy], walk: StateWalk) -> Iterator[tuple[str, object, Any]]:
    """What the program did to its copies: the text of the argument, key, and value; a list is given as a WHOLE.

    Errors: C003 where the argument can be reached in two ways, so that there are two copies.
    """
    for copy, original, text, before in copies:
        now = entries_of(copy)
        changed = list(changed_entries(before, now, lambda key, value, before=before: value is before[key]))
        if not changed:
            continue
        if sum(other.original is original for other in copies) > 1 or id(original) in walk.before:
            _refuse_twice(original)
        if isinstance(copy, list):
            yield text, WHOLE, copy
        else:
            for key, value in changed:
                yield text, key, value


def refuse_both(changed: Iterable[tuple[Leaf, object]], copies: Sequence[Copy]) -> None:
    """C003 for a container that changes as part of the state, and has a copy as an argument."""
    originals = {id(copy.original) for copy in copies}
    for leaf, _ in changed:
        if id(leaf.container) in originals:
            _refuse_twice(leaf.container)


def _refuse_twice(container: object) -> NoReturn:
    fail(
        "C003",
        f"compile: the function changes a {type(container).__name__} that it is given twice",
        hint="pass it once, or a copy",
    )


def state_effects(changed: Iterable[tuple[Leaf, object]], values: Callable[[object], Template]) -> Iterator[Effect]:
    """What becomes of the containers that a function reaches by itself; `values` makes templates."""
    for leaf, now in changed:
        yield Effect(leaf.container, leaf.key, Deleted() if now is MISSING else values(now), leaf.path)


def argument_effects(copies: Sequence[Copy], walk: StateWalk, values: Callable[[object], Template]) -> Iterator[Effect]:
    """What becomes of the containers among its arguments."""
    for text, key, now in changed_arguments(copies, walk):
        if key is WHOLE:
            value: Template = Container(list, tuple([values(element) for element in now]))
        else:
            value = Deleted() if now is MISSING else values(now)
        yield Effect(Reached(text), key, value, text)


def namer_of_reached(
    walk: StateWalk, copies: Sequence[Copy], objects: Mapping[int, str], names: Callable[[object], str]
) -> Callable[[object], str | None]:
    """A function from what was there before to its text in the entry's function. None for other values.

    It knows containers, and `objects`, whose names are given by identity.
    """
    texts = {id(one.copy): one.text for one in copies} | dict(objects)

    def reached(value: object) -> str | None:
        return names(value) if id(value) in walk.before else texts.get(id(value))

    return reached


def is_written(value: Any) -> bool:
    """Whether what a call puts into state in place of a value of the trace is the same."""
    kind = type(value)
    return kind in PLAIN or issubclass(kind, (Handle, SymInt)) or (kind is tuple and all(map(is_written, value)))


def holder_of(walk: StateWalk, made: object, owners: Sequence[object]) -> object:
    """Which object of the state has been given a new container, by a function that returns it; None: none.

    The commit and the recipe would each make one.
    """
    for owner in owners if id(made) not in walk.before else ():
        variables = variables_of(owner)
        if id(variables) in walk.before and any(value is made for value in (variables or {}).values()):
            return owner
    return None


def put_in(walk: StateWalk, made: Mapping[int, tuple[object, int]]) -> list[tuple[int, str]]:
    """What the program has made that a function of ours has put into the state: when it was made, and its class.

    The template would be that of the trace's object, and one that the frames hold too would be two after the call.
    """
    found: list[tuple[int, str]] = []
    seen: set[int] = set()
    waiting: list[object] = []
    for container, _, entries in walk.own_containers():
        before = walk.before[id(container)]
        waiting += [value for key, value in entries.items() if value is not before.get(key, MISSING)]
    while waiting and len(seen) < _MOST:
        value: Any = waiting.pop()
        kind = type(value)
        if is_written(value) or id(value) in seen or id(value) in walk.before:
            continue
        seen.add(id(value))
        if id(value) in made and kind is not tuple:
            found.append((made[id(value)][1], kind.__name__))
        held = value if kind in (list, tuple, set) else value.values() if kind is dict else ()
        waiting += [*held, *(variables_of(value) or {}).values()]
    return sorted(found)
