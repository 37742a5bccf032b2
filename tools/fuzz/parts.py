"""Fuzzer of functions that are compiled in parts, against eager code, bit for bit: results, gradients, writes.

A program is one of the fuzzer `compiled` in which graphs end: at `graph_break`, where a value is read, and where a hook
is registered, on values that are used before and after. Some of these are kept by an object meanwhile: an instance of a
new class, a generator, an iterator, an exception. What a graph refuses Python runs, so nothing is refused.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import rushlight
from rushlight.support import settings
from tools.fuzz import compiled
from tools.fuzz.compiled import HOOK, POOL, Plan
from tools.fuzz.finding import Finding
from tools.fuzz.program import Program, targets

PARTS = functools.partial(rushlight.compile, fullgraph=False)
BREAK = "torch.compiler.graph_break()"
READ = "{v}.detach().sum().item()"
KEPT = (
    ('type("Kept", (), {{"held": {v}}})()', "{k}.held"),
    ("(each for each in [{v}])", "next({k})"),
    ('iter({{"held": {v}}}.items())', "next({k})[1]"),
    ("ValueError({v})", "{k}.args[0]"),
    ("[[{v}]].__iter__()", "next({k})[0]"),
)  # what keeps a value where a graph ends, and how the value is taken back


def generate(seed: int, number: int) -> Program:
    """The program of a seed and number, at its samples' sizes."""
    with settings.override(optimise=0):
        return plan_of(seed, number).program


@functools.lru_cache(2 * POOL)
def plan_of(seed: int, number: int) -> Plan:
    """The program of a seed and number, with inputs at several sizes."""
    plan = compiled.plan_of(seed, number)
    random = Random(f"parts {seed} {number}")
    statements: list[str] = []
    made: list[str] = []
    for statement in plan.program.statements:
        statements.append(statement)
        made += targets(statement)
        kind = random.random()
        if kind < 0.3:
            statements.append(BREAK)
        elif kind < 0.5 and made:
            name = random.choice(made)
            hook = f"isinstance({name}, torch.Tensor) and {HOOK.format(v=name)}"
            statements.append(hook if kind < 0.42 else f"isinstance({name}, torch.Tensor) and {READ.format(v=name)}")
        elif kind < 0.65 and made:
            statements += _kept(random, random.choice(made), f"kept{len(statements)}")
    program = replace(plan.program, statements=tuple(statements))
    return compiled.planned(program, plan.others)


def _kept(random: Random, name: str, holder: str) -> list[str]:
    """Statements that put a value into an object, end the graph, and take it out again."""
    keep, take = random.choice(KEPT)
    return [f"{holder} = {keep.format(v=name)}", BREAK, f"{name} = {take.format(k=holder)}"]


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    return next(iter(judge_many([program], skipped)), None)


def judge_many(programs: Sequence[Program], skipped: Counter[str]) -> list[Finding]:
    """What is wrong with some of `generate`'s programs, compiled together."""
    return compiled.judge_many(programs, skipped, PARTS, plan_of)
