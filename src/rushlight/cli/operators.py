"""`rushlight ops` and `rushlight dispatch`: the registry of operators, and who answers a call."""

from __future__ import annotations

import ast
import re
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import rushlight as rl
from rushlight.eager.dispatch import answers, backend_key, explained
from rushlight.eager.execution.device import ON_COPIES, way_of
from rushlight.ops.record import OPERATORS, Fact, Operator
from rushlight.support import lazy
from rushlight.support.errors import fail

app = typer.Typer(help="The registry of operators.", no_args_is_help=True)
dispatch_app = typer.Typer(help="Who answers a call.", no_args_is_help=True)
_NOBODY = "nobody"
_TENSOR = re.compile(r"^(?P<dtype>\w+)\[(?P<shape>[\d, ]*)\](?:@(?P<device>\w+))?(?P<grad>:grad)?$")


def _operator(name: str) -> Operator:
    if name not in OPERATORS:
        near = ", ".join(sorted([other for other in OPERATORS if name in other])[:8])
        hint = f"did you mean {near}?" if near else "rushlight ops list"
        fail("A002", f"ops: there is no operator {name}", hint=hint)
    return OPERATORS[name]


def _record(op: Operator) -> dict[str, object]:
    table = {answer.key.name: str(answer) for answer in answers(op) if answer.by is not None}
    facts = [fact.name for fact in Fact if fact in op.facts and fact.name]
    return {"name": op.name, "schema": op.schema.text, "doc": op.doc, "facts": facts, "kernels": table}


@app.command("list")
def list_operators(
    json: Annotated[bool, typer.Option("--json", help="All that is known, as JSON.")] = False,
    word: Annotated[str, typer.Argument(help="Part of a name.")] = "",
) -> None:
    """Print the operators with their schemas."""
    names = sorted([name for name in OPERATORS if word in name])
    if json:
        typer.echo(lazy.json.dumps([_record(OPERATORS[name]) for name in names], indent=1))
        return
    for name in names:
        typer.echo(OPERATORS[name].schema.text)


@app.command()
def explain(name: Annotated[str, typer.Argument(help="The operator.")]) -> None:
    """Print what the registry knows of an operator: schema, facts, rules, and who answers at each key."""
    op = _operator(name)
    rules = [rule for rule in ("meta", "ref", "lower", "decompose", "view", "vjp", "samples") if _has(op, rule)]
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(op.schema.text)
    console.print(f"  {op.doc}")
    console.print(f"  facts: {', '.join([fact.name for fact in Fact if fact in op.facts and fact.name]) or 'none'}")
    console.print(f"  rules: {', '.join(rules) or 'none'}; dtypes: {op.dtypes}; autocast: {op.autocast or 'as it is'}")
    for answer in answers(op):
        if answer.by is not None:
            console.print(f"  {answer.key.name:<14} {answer}")


def _has(op: Operator, rule: str) -> bool:
    return getattr(op, f"{rule}_rule") is not None


@app.command()
def coverage(
    device: Annotated[str, typer.Option(help="The kind of device.")] = "cpu",
    missing: Annotated[bool, typer.Option("--missing", help="Name the operators that it lacks.")] = False,
) -> None:
    """Print how many operators a kind of device answers, and by what."""
    by: dict[str, list[str]] = {}
    for name, op in OPERATORS.items():
        by.setdefault(_answered_by(op, device), []).append(name)
    table = Table("by", "operators")
    for how, names in sorted(by.items()):
        table.add_row(how, str(len(names)))
    lacking = sorted([*by.get(_NOBODY, ()), *by.get(ON_COPIES, ())])
    typer.echo(f"{device}: {len(OPERATORS) - len(lacking)}/{len(OPERATORS)} operators")
    Console().print(table)
    if missing:
        typer.echo("\n".join(lacking))


def _answered_by(op: Operator, device: str) -> str:
    if device not in ("cpu", "meta"):
        return way_of(rl.backends.get(device), op)
    key = backend_key(device)
    return next(answer.by for answer in answers(op) if answer.key is key) or _NOBODY


@dispatch_app.command("explain")
def explain_call(
    name: Annotated[str, typer.Argument(help="The operator.")],
    arguments: Annotated[list[str], typer.Argument(help="Such as float32[3,4], float32[2]@meta:grad, or 1.5.")],
) -> None:
    """Print which keys are active in a call, who is asked at each, and why."""
    op = _operator(name)
    operands, _ = op.bind(tuple([_argument(text) for text in arguments]), {})
    typer.echo(op.schema.text)
    for line in explained(op, operands):
        typer.echo(f"  {line}")


def _argument(text: str) -> object:
    """A tensor, or a value of Python's."""
    match = _TENSOR.match(text)
    if match is None:
        try:
            value: object = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            fail("A002", f"dispatch: {text} is neither a tensor nor a value", hint="write float32[3,4], 2.5, or [0, 1]")
        return value
    dtype = getattr(rl, match["dtype"], None)
    if not isinstance(dtype, rl.dtype):
        fail("A002", f"dispatch: {match['dtype']} is no dtype", hint="write float32[3,4]")
    shape = [int(size) for size in match["shape"].split(",") if size.strip()]
    return rl.zeros(shape, dtype=dtype, device=match["device"] or "cpu", requires_grad=match["grad"] is not None)
