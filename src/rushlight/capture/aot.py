"""Functions compiled for specifications: an artifact without guards for each, and the first that a call fits runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rushlight.capture.marks import refuse_fixed
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymInt
from rushlight.ir.spec.cover import require_coverage
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec
from rushlight.ir.spec.specification import OpenSpec, ParamsSpec
from rushlight.ir.type import TensorType, symbols_in
from rushlight.support.errors import RushlightError, error, fail, require
from rushlight.sym import SizeExpr

if TYPE_CHECKING:
    from rushlight.capture.program import Program, Recorder

Given = str | ParamsSpec | Sequence[str | ParamsSpec]


def specifications(given: Given | None, domain: str | ParamsSpec | None) -> tuple[ParamsSpec, ...]:
    """Specifications from text or objects, one or several; C021 where some call in the domain fits none."""
    if given is None:
        require(domain is None, "A001", "compile: a domain is for specs", domain=str(domain))
        return ()
    items = [given] if isinstance(given, (str, ParamsSpec)) else list(given)
    specs = tuple([_parsed(text) for text in items])
    if domain is not None:
        require_coverage(_parsed(domain), specs)
    return specs


def _parsed(spec: str | ParamsSpec) -> ParamsSpec:
    return ParamsSpec.parse(spec) if isinstance(spec, str) else spec


def first_fitting(specs: Sequence[ParamsSpec], args: tuple[object, ...], kwargs: dict[str, object]) -> ParamsSpec:
    """The first specification that a call fits; C022 where there is none."""
    paths: tuple[str, ...] | None = None
    leaves: list[object] = []
    for spec in specs:
        if spec.paths != paths:
            try:
                leaves = _kinds(spec, args, kwargs)
            except RushlightError:
                continue  # nested in another way
            paths = spec.paths
        if spec.fits(leaves):
            return spec
    told = "; ".join([f"not {spec}: {_reason(spec, args, kwargs)}" for spec in specs])
    raise error("C022", f"compile: the call fits no specification: {told}")


def _kinds(spec: ParamsSpec, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
    return [leaf.form if isinstance(leaf, Handle) else leaf for leaf in spec.arguments(args, kwargs)]


def _reason(spec: ParamsSpec, args: tuple[object, ...], kwargs: dict[str, object]) -> str | None:
    try:
        return spec.violation(_kinds(spec, args, kwargs))
    except RushlightError as unsupported:
        return unsupported.message


def in_order(spec: object, value: Any) -> Any:
    """A call's arguments with the entries of dicts in the specification's order."""
    if isinstance(spec, dict):
        return {key: in_order(part, value[key]) for key, part in spec.items()}
    if isinstance(spec, (tuple, list)):
        return type(spec)([in_order(part, entry) for part, entry in zip(spec, value, strict=True)])
    return value


def stand_in(opened: OpenSpec, recorder: Recorder, position: int, name: str, value: Any) -> object:
    """What stands for an argument while tracing for a specification."""
    leaf = opened.leaves[position]
    if isinstance(leaf, TensorType):
        return recorder.argument(position, value, leaf, apart=True)
    if isinstance(leaf, SizeExpr):
        recorder.numbers.sizes[name] = leaf
        return SymInt(leaf)
    if isinstance(leaf, FloatSpec):
        return recorder.number(name, value)
    assert isinstance(leaf, ConstSpec)
    return leaf.value


def finish(opened: OpenSpec, program: Program) -> Program:
    """Checks that a program assumes only its specification. Adds how to compute sizes that no input shows."""
    for text, value in program.inputs.fixed.items():
        fail("C011", f"compile: the number {text} is open, and the program needs it to be {value}")
    if program.guards:
        guard = program.guards[0]
        fail("C011", f"compile: the specification does not say whether {guard.condition}", frame=guard.frame)
    refuse_fixed(program.scope, {symbol: f"the specification leaves {symbol} open" for symbol in opened.bindings})
    shown = {size for call in program.graph.parameters for size in call.type.shape}
    used = [call.symbols() for call in (*program.graph.parameters, *program.graph.calls)]
    asked = [symbol for pending in program.scope.asserts for symbol in symbols_in([pending.condition.expr])]
    sizes = dict(program.inputs.sizes)
    computed = set(sizes.values())
    for symbol in dict.fromkeys([*[symbol for symbols in used for symbol in symbols], *asked, *program.unbacked]):
        binding = opened.bindings.get(symbol)
        if symbol in shown or symbol in computed or binding is None:
            continue
        text = f"a{binding.leaf}.form.shape[{binding.dim}]"
        sizes[f"(({text} - {binding.offset}) // {binding.scale})"] = symbol
    return replace(program, inputs=replace(program.inputs, sizes=sizes))
