"""What mergedog may do, how often, and how it reads logs: a TOML file over the defaults."""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TypeVar, cast

from mergedog.errors import PolicyError
from mergedog.rules import Rule, rule_from

Table = dict[str, object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose approval counts, and whose rebases."""

    maintainers: tuple[str, ...] = ()
    rebase_bot: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often each automatic action may happen."""

    fixes: int = 5
    merges: int = 3
    reruns: int = 2
    run_approvals: int = 50
    full_runs: int = 10
    comment_edits: int = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Ages and waits."""

    base_days: float = 7.0
    settle_seconds: float = 120.0
    missing_seconds: float = 3600.0
    poll_seconds: float = 60.0
    agent_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class Checks:
    """Workflows that must have run."""

    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Full:
    """How the full run is asked for."""

    ref: str = "refs/tags/full/{number}"
    workflows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentRules:
    """What an agent is given and what its commit may be."""

    tag: str = "[mergedog]"
    environment: tuple[str, ...] = ("PATH", "HOME", "LANG", "TERM")
    protected: tuple[str, ...] = (".github/", ".git/", ".gitmodules", ".ci/")
    files: int = 50


@dataclass(frozen=True, slots=True)
class Rate:
    """Calls of a forge that all processes together may make."""

    per_minute: int = 20
    per_hour: int = 3000


@dataclass(frozen=True, slots=True)
class Parking:
    """The label of an incident."""

    label: str = "ci: incident"


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it. `text` is what it was read from, for bundles."""

    trust: Trust = field(default_factory=Trust)
    bounds: Bounds = field(default_factory=Bounds)
    timing: Timing = field(default_factory=Timing)
    checks: Checks = field(default_factory=Checks)
    full: Full = field(default_factory=Full)
    agent: AgentRules = field(default_factory=AgentRules)
    governor: Rate = field(default_factory=Rate)
    parking: Parking = field(default_factory=Parking)
    rules: tuple[Rule, ...] = ()
    text: str = ""


def default_text() -> str:
    """Return the commented defaults."""
    return files("mergedog").joinpath("default_policy.toml").read_text(encoding="utf-8")


def read_policy(path: Path | None = None) -> Policy:
    """Return the policy of a file, or the defaults."""
    return policy_from(path.read_text(encoding="utf-8") if path else "")


def policy_from(text: str) -> Policy:
    """Return the policy that a TOML text describes.

    A text with rules of its own replaces the default ones; otherwise a table names only what differs.
    """
    tables = _parsed(default_text())
    own = _parsed(text)
    for name, table in own.items():
        if name not in tables:
            raise PolicyError(f"[{name}] is no table of a policy; there are {', '.join(sorted(tables))}")
        if isinstance(table, dict):
            tables[name] = {**cast("Table", tables[name]), **cast("Table", table)}
        else:
            tables[name] = table
    rules = tuple(rule_from(cast("Table", rule)) for rule in cast("list[object]", tables.pop("rule")))
    return _policy(tables, rules, text)


def _policy(tables: Table, rules: tuple[Rule, ...], text: str) -> Policy:
    return Policy(
        trust=_section(Trust, "trust", tables),
        bounds=_section(Bounds, "bounds", tables),
        timing=_section(Timing, "timing", tables),
        checks=_section(Checks, "checks", tables),
        full=_section(Full, "full", tables),
        agent=_section(AgentRules, "agent", tables),
        governor=_section(Rate, "governor", tables),
        parking=_section(Parking, "parking", tables),
        rules=rules,
        text=text,
    )


def _parsed(text: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"the policy is no TOML: {error}") from None


def _section(kind: type[T], name: str, tables: Table) -> T:
    """Return one table as its record, or say which entry is wrong."""
    table = cast("Table", tables[name])
    defaults = kind()
    values: Table = {}
    known = {item.name for item in dataclasses.fields(cast("type", kind))}
    for key, value in table.items():
        if key not in known:
            raise PolicyError(f"[{name}] {key}: no such entry; there are {', '.join(sorted(known))}")
        values[key] = _value(f"[{name}] {key}", value, getattr(defaults, key))
    return kind(**values)


def _value(where: str, value: object, default: object) -> object:
    """Return a value in the type of its default; numbers are not negative."""
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
            return tuple(cast("list[str]", value))
        raise PolicyError(f"{where}: a list of texts is wanted")
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(default):
        raise PolicyError(f"{where}: {type(default).__name__} is wanted, not {type(value).__name__}")
    if isinstance(value, int | float) and value < 0:
        raise PolicyError(f"{where}: it cannot be negative")
    return value
