"""Random registrations, key sets, declines and re-entries: the dispatcher against a reference of thirty lines.

`python -m tests.eager.dispatch_reference --count 100000` asks so many calls.
"""

import argparse
import random

from rushlight.compiler import disable
from rushlight.eager.dispatch import STATE, Dispatched, Key, bit, dispatch, register, table
from rushlight.support.errors import RushlightError
from rushlight.term import Op

FREE = [Key.DEVICE_1, Key.DEVICE_2, Key.DEVICE_3, Key.PYTHON, Key.FUNCTIONALIZE, Key.AUTOCAST, Key.BATCHED]
CALLS = 40  # of one set of registrations


class Keyed(Dispatched):
    """A value that is nothing but its keys."""

    __slots__ = ()

    def __init__(self, *keys):
        self.keys = sum({bit(key) for key in keys})

    def apply(self, op, args, attrs):
        return dispatch(op, args, attrs)

    shape = dtype = device = None


def without_kernels(monkeypatch):
    """While a test runs there is a table without anybody's kernels."""
    monkeypatch.setattr(table, "_kernels", {})
    table.tables.clear()
    yield
    table.tables.clear()


# The reference: an operator is a dict from keys to (what it does, whether it re-enters). Doing is "return", "decline",
# or ("call", the name of another operator).
def reference(ops, name, tensor, included, excluded, log, depth=0):
    active = (tensor | included) & ~excluded
    for key in sorted(FREE, reverse=True):
        if not active >> key & 1 or key not in ops[name]:
            continue
        does, reenters = ops[name][key]
        log.append((name, key.name))
        if does == "decline":
            continue
        if does == "return":
            return key
        if depth > 6:
            raise RecursionError
        inner = excluded if reenters else excluded | bit(key)
        return reference(ops, does[1], tensor, included, inner, log, depth + 1)
    raise LookupError(name)


def build(ops, log, registered):
    """The same operators in the real tables."""
    made = {name: Op(f"test::{name}") for name in ops}
    for name, kernels in ops.items():
        for key, (does, reenters) in kernels.items():

            def kernel(*operands, name=name, key=key, does=does):
                log.append((name, key.name))
                if does == "decline":
                    return NotImplemented
                if does == "return":
                    return key
                if len(STATE.running) > 7:
                    raise RecursionError
                return dispatch(made[does[1]], operands, {})

            registered(made[name], key, kernel, reenters=reenters)
    return made


@disable  # it sets the state of the dispatcher, which a trace uses
def differing(seed, registered):
    """The calls of a set of random registrations in which the dispatcher and the reference differ."""
    rng = random.Random(seed)
    names = ["a", "b", "c"]
    ops = {
        name: {
            key: (
                rng.choice(["return", "return", "decline", ("call", rng.choice(names))]),
                rng.random() < 0.15,
            )
            for key in FREE
            if rng.random() < 0.6
        }
        for name in names
    }
    log, wrong = [], []
    made = build(ops, log, registered)
    for _ in range(CALLS):
        tensors = [Keyed(*rng.sample(FREE, rng.randrange(0, 4))) for _ in range(2)]
        included = sum({bit(key) for key in FREE if rng.random() < 0.15})
        excluded = sum({bit(key) for key in FREE if rng.random() < 0.15})
        name = rng.choice(names)
        expected_log, log[:] = [], []
        keys = tensors[0].keys | tensors[1].keys
        try:
            expected = reference(ops, name, keys, included, excluded, expected_log)
        except (LookupError, RecursionError) as error:
            expected = type(error)
        before = (STATE.included, STATE.excluded, STATE.running)
        STATE.included, STATE.excluded = included, excluded
        try:
            found = dispatch(made[name], tuple(tensors), {})
        except RushlightError as error:
            assert error.code == "A006"
            found = LookupError
        except RecursionError:
            found = RecursionError
        finally:
            assert (STATE.included, STATE.excluded, STATE.running) == (included, excluded, before[2])
            STATE.included, STATE.excluded, STATE.running = before
        if found != expected or (expected is not RecursionError and log != expected_log):
            wrong.append((seed, name, found, expected))
    return wrong


def main():
    """Ask as many calls as are wanted; exit with 1 if some differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    count, wrong = parser.parse_args().count, []
    table._kernels.clear()
    table.tables.clear()
    for seed in range(-(-count // CALLS)):
        made = []
        wrong += differing(seed, lambda *args, made=made, **how: made.append(register(*args, **how)))
        for registration in made:
            registration.remove()
    print(f"{count} calls, {len(wrong)} differ", *wrong[:10], sep="\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
