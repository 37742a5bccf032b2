"""What each operator of ONNX computes: rules with the versions that they hold for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rushlight.onnx.model import OperatorName
from rushlight.support.frozen import frozen

Rule = Callable[..., object]
R = TypeVar("R", bound=Callable[..., Any])


@frozen
class Operator:
    """A rule for an operator from the version `since` on, until a later rule.

    The rule takes operands in order, None for one that is left out, and attributes by name. Operands at the positions
    `host` are numpy arrays, whose elements may be symbolic sizes; all others are tensors, or lists of them.
    With `counted`, the rule is told by `outputs` how many results there are up to the last that is used.
    """

    name: OperatorName
    since: int
    rule: Rule
    host: frozenset[int]
    counted: bool
    attributes: frozenset[str]


_OPERATORS: dict[OperatorName, list[Operator]] = {}
_SIZES: dict[OperatorName, Rule] = {}


def define(
    name: str,
    rule: Rule,
    since: int = 1,
    *,
    host: tuple[int, ...] | frozenset[int] = (),
    domain: str = "",
    counted: bool = False,
    attributes: tuple[str, ...] | None = None,
) -> None:
    """Register a rule. `attributes` are the names of those it takes where its signature does not say so."""
    key = OperatorName(domain, name)
    known = frozenset(_keywords(rule) if attributes is None else attributes)
    rules = _OPERATORS.setdefault(key, [])
    rules.append(Operator(key, since, rule, frozenset(host), counted, known))
    rules.sort(key=lambda operator: operator.since)


def operator(
    name: str,
    since: int = 1,
    *,
    host: tuple[int, ...] | frozenset[int] = (),
    domain: str = "",
    counted: bool = False,
    attributes: tuple[str, ...] | None = None,
) -> Callable[[R], R]:
    """A decorator that registers a rule; its keyword-only parameters are the attributes."""

    def register(rule: R) -> R:
        define(name, rule, since, host=host, domain=domain, counted=counted, attributes=attributes)
        return rule

    return register


def sizes(name: str) -> Callable[[R], R]:
    """A decorator that registers what an operator computes of arrays of sizes.

    So sizes stay open. The rule gives NotImplemented for what only tensors can.
    """

    def register(rule: R) -> R:
        _SIZES[OperatorName("", name)] = rule
        return rule

    return register


def table(rules: Mapping[str, Rule], since: int = 1) -> None:
    """Register rules that take no attributes."""
    for name, rule in rules.items():
        define(name, rule, since, attributes=())


def find(name: OperatorName, version: int) -> Operator | None:
    """The rule of an operator in a version of its domain."""
    suited = [operator for operator in _OPERATORS.get(name, ()) if operator.since <= version]
    return suited[-1] if suited else None


def size_rule(name: OperatorName) -> Rule | None:
    """What the operator computes of sizes, where it does."""
    return _SIZES.get(name)


def operators() -> tuple[str, ...]:
    """The names of all operators that models may use."""
    return tuple(sorted(map(str, _OPERATORS)))


def _keywords(rule: Rule) -> list[str]:
    parameters = inspect.signature(rule).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
