"""The operator record: one block holds all that is known of an operator.

    matmul = define("matmul(Tensor a, Tensor b) -> Tensor", "Matrix product of the last two dims.")

    @matmul.meta
    def matmul_meta(a: TensorType, b: TensorType) -> TensorType: ...

Every rule's parameter names are checked against the schema when it is attached. Engines ask a record for its rule;
they never test its name. Rules are called with keywords named as in the schema.
"""

from __future__ import annotations

import functools
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Flag, auto
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast, overload

from rushlight.ir.dtype import Kind
from rushlight.ir.graph import GraphBuilder, Node
from rushlight.ir.type import Layout, TensorType, dense_order, row_major
from rushlight.ir.value import SYNTAX, Value
from rushlight.ops.schema import Parameter, Schema, Signature, name_of, parse_schema, signature_of
from rushlight.support.errors import fail
from rushlight.sym import ge, required
from rushlight.term import Op

Inferred = TypeVar("Inferred")
F = TypeVar("F", bound=Callable[..., Any])
Gradients: TypeAlias = tuple[Value | None, ...]


# Families of dtypes that operators accept.
FAMILIES: dict[str, tuple[Kind, ...]] = {
    "all": (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.COMPLEX),
    "real": (Kind.BOOL, Kind.INT, Kind.FLOAT),
    "number": (Kind.INT, Kind.FLOAT, Kind.COMPLEX),
    "ordered": (Kind.INT, Kind.FLOAT),
    "float": (Kind.FLOAT,),
    "inexact": (Kind.FLOAT, Kind.COMPLEX),
    "int": (Kind.INT,),
    "complex": (Kind.COMPLEX,),
    "integral": (Kind.BOOL, Kind.INT),
}


# Attribute types of unbacked sizes, with the lower bound of their symbols. Only a run of the call tells their values.
UNBACKED: dict[str, int | None] = {"unbacked": 0, "unbacked[]": 0, "unbacked_int": None}


class Fact(Flag):
    """What engines may know of an operator without knowing which it is."""

    NONE = 0
    POINTWISE = auto()  # one result element from the operands' elements at the broadcast index
    VIEW = auto()  # the result shares its operand's storage
    REDUCTION = auto()
    RANDOM = auto()  # takes seed and ordinal; never merged, never recomputed with another ordinal
    NONDIFFERENTIABLE = auto()  # its result has no gradient
    DATA_DEPENDENT = auto()  # sizes depend on values; its attributes of type `unbacked` hold their symbols
    HOST = auto()  # an opaque call on the host: its `ref` on arrays, or its `kernel`; a composite that makes such calls
    COMPLEX_HOST = auto()  # a composite that makes such calls where an operand or its dtype is complex
    FITTING = auto()  # Python numbers among its operands are taken in the result's dtype, and have to fit it
    PROMISED = auto()  # what it needs of its arguments is not asked where sizes are symbols: rules call it, not users
    REPEATING = auto()  # a view that may show one place of its operand's storage several times
    STRIDED = auto()  # a view by strides of its own, which may leave its operand: of the storage, not of a value
    CONTROL = auto()  # its attributes hold graphs, and it says which of them run and how often: for programs alone
    LEADING = auto()  # its function takes a number as the first operand, beside a tensor, as in `2 ** x`
    STORED = auto()  # hands elements on, or converts or compares them: also those of dtypes that are storage alone
    NUMERIC = auto()  # its function takes numbers alone too
    EFFECT = auto()  # done once for each call, in the order of calls, whether its result is needed or not
    FOREIGN = auto()  # a program's own: in graphs its results are held to their types
    WRITES = auto()  # its result is its first operand but for the places that it writes, which it computes
    EXACT_STRIDES = auto()  # in graphs its operands have the strides that they have eagerly
    ROW_MAJOR = auto()  # in graphs its operands are row-major
    PLACED = auto()  # a view that depends on where its operand's elements lie: it shows other ones there, or refuses
    INLINED = auto()  # a function of the program's: graphs hold the calls that it consists of, never itself
    REFUSING = auto()  # the host refuses some values: a program's call is made even where nothing needs its result


# What a rule is where a record has none, by the slot that holds it.
_NO_RULES: Mapping[str, Any] = {
    "decompose_rule": None,
    "inverse_rule": None,
    "kernels": {},
    "lower_rule": None,
    "meta_rule": None,
    "ref_rule": None,
    "samples_rule": None,
    "shares_rule": None,
    "view_rule": None,
    "vjp_needs": (),
    "vjp_rule": None,
    "vjp_types": (),
}


class Declaration(NamedTuple):
    """What is said of an operator before its rules; see `define`."""

    schema: str
    doc: str
    facts: Fact
    dtypes: str
    autocast: str | None
    variants: str
    syntax: str | None = None


class Operator(Op):
    """An operator: schema, doc, facts and rules. Calling it dispatches on its arguments."""

    __slots__ = (
        "_births",
        "_operands",
        "_schema",
        "autocast",
        "decompose_rule",
        "doc",
        "dtypes",
        "facts",
        "inverse_rule",
        "kernels",
        "lower_rule",
        "meta_rule",
        "module",
        "ref_rule",
        "samples_rule",
        "shares_rule",
        "signature",
        "variants",
        "view_rule",
        "vjp_needs",
        "vjp_rule",
        "vjp_types",
    )

    chooser: ClassVar[Any] = None  # who chooses tiles and blocks of its eager code, in place of the cost model
    signature: Signature
    kernels: dict[str, Callable[..., Any]]
    meta_rule: Callable[..., Any] | None
    ref_rule: Callable[..., Any] | None
    lower_rule: Callable[..., Any] | None
    decompose_rule: Callable[..., Any] | None
    view_rule: Callable[..., Layout] | None
    shares_rule: Callable[..., Layout | None] | None
    inverse_rule: Callable[..., Any] | None
    vjp_rule: Callable[..., Any] | None
    vjp_needs: tuple[str, ...]
    vjp_types: tuple[str, ...]
    samples_rule: Callable[..., Iterator[Any]] | None

    def __init__(self, declaration: Declaration, module: str) -> None:
        super().__init__(name_of(declaration.schema))
        self.module = module
        self.declare(declaration)

    def declare(self, declaration: Declaration) -> None:
        """Set what is said of the operator before its rules."""
        # The schema is parsed when it is first asked for: most operators of a program never are.
        self._schema: Schema | str = declaration.schema
        self.doc = declaration.doc
        self.facts = declaration.facts
        self.effect = Fact.EFFECT in declaration.facts
        self.inlined = Fact.INLINED in declaration.facts
        self.dtypes = declaration.dtypes
        self.autocast = declaration.autocast
        self.variants = frozenset(declaration.variants.split())
        self._operands: tuple[Parameter, ...] | None = None
        self._births: tuple[str, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        """A rule that is not attached: the record's module is loaded, if it was not yet, and is asked again."""
        if name not in _NO_RULES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self.module in _deferred_modules:
            import_module(self.module)  # waits for the thread that loads it
        for rule, nothing in _NO_RULES.items():
            try:
                object.__getattribute__(self, rule)
            except AttributeError:
                setattr(self, rule, nothing)
        return object.__getattribute__(self, name)

    @property
    def schema(self) -> Schema:
        """The parsed schema."""
        schema = self._schema
        if isinstance(schema, str):
            schema = self._schema = parse_schema(schema)
        return schema

    # Attaching rules. Each returns the function unchanged, so the rule stays a plain module-level name.

    def meta(self, rule: F) -> F:
        """Typing: TensorTypes and attributes in, TensorType (or a tuple) out, on symbolic sizes too."""
        self.meta_rule = self._checked("meta", rule)
        return rule

    def ref(self, rule: F) -> F:
        """Meaning: numpy arrays and attributes in, arrays out."""
        self.ref_rule = self._checked("ref", rule)
        return rule

    def lower(self, rule: F) -> F:
        """Loops: `(at, operands, attributes)`; see `ir.loops`."""
        self.lower_rule = self._checked("lower", rule, ("at",))
        return rule

    def decompose(self, rule: F) -> F:
        """The operator in terms of others: Values in, Values out. Runs on graph nodes and on Tensors."""
        self.decompose_rule = self._checked("decompose", rule)
        return rule

    def view(self, rule: F) -> F:
        """For views: the operand's Layout (first parameter) and attributes in, the result's Layout out.

        A layout with a negative size is error S007.
        """
        self.view_rule = _with_sizes_checked(self.name, self._checked("view", rule))
        return rule

    def shares(self, rule: F) -> F:
        """For views that are copies where strides demand it: as `view`, of what that takes for a copy.

        It is asked when either is written to, and has to know: the answer is guarded, or asserted.
        """
        self.shares_rule = self._checked("shares", rule)
        return rule

    def inverse(self, rule: F) -> F:
        """For views: `(base, value, attributes)`: the base's value once the view's elements are `value`'s."""
        self.inverse_rule = rule
        return rule

    @overload
    def vjp(self, rule: F) -> F: ...

    @overload
    def vjp(self, *, types: tuple[str, ...]) -> Callable[[F], F]: ...

    def vjp(self, rule: F | None = None, *, types: tuple[str, ...] = ()) -> F | Callable[[F], F]:
        """Reverse derivative: takes `g`, then any of the names of results and parameters; exactly those are saved.

        The parameters named in `types`, as in `@gather.vjp(types=("input",))`, receive the TensorType: no data is
        saved for them.
        Returns one gradient (or None) per operand, in the schema's order; a bare value when there is one operand.
        With several results `g` is a tuple with None for results that have no gradient.
        """

        def attach(rule: F) -> F:
            names = _names_of(rule)
            allowed = {*self.signature.results, *self.signature.parameters}
            if not names or names[0] != "g" or not set(names[1:]) <= allowed or not set(types) <= set(names[1:]):
                fail("X002", f"{self.name}: vjp takes g, then names of results or parameters", takes=names)
            self.vjp_rule, self.vjp_needs, self.vjp_types = rule, names[1:], types
            return rule

        return attach if rule is None else attach(rule)

    def samples(self, rule: F) -> F:
        """Sample arguments for generated tests and benchmarks: `(rng)` in, an iterator of `Sample`s out."""
        self.samples_rule = rule
        return rule

    def kernel(self, device: str) -> Callable[[F], F]:
        """An opaque host implementation for a kind of device."""

        def attach(rule: F) -> F:
            self.kernels[device] = rule
            return rule

        return attach

    def _checked(self, kind: str, rule: Callable[..., Any], first: tuple[str, ...] = ()) -> Callable[..., Any]:
        expected = first + self.signature.parameters
        names = _names_of(rule)
        if names != expected:
            fail("X002", f"{self.name}: the {kind} rule does not fit the schema", takes=names, schema=expected)
        return rule

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments as (operands, attributes), defaults filled in."""
        return self.schema.bind(args, kwargs)

    __name__ = property(lambda self: self.name)  # as functions have it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the operator in the world of its first tensor argument."""
        operands, attrs = self.bind(args, kwargs)
        for operand in operands:
            if isinstance(operand, Value):
                return operand.apply(self, operands, attrs)
            if isinstance(operand, tuple) and operand and isinstance(operand[0], Value):
                return operand[0].apply(self, operands, attrs)
        return _without_tensors[0](self, operands, attrs)

    def named(self, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Operands and attributes by the schema's names, for calling a rule."""
        parameters = self._operands
        if parameters is None:
            parameters = self._operands = self.schema.operands
        return {**{parameter.name: value for parameter, value in zip(parameters, operands, strict=True)}, **attrs}

    @property
    def unbacked_outputs(self) -> tuple[str, ...]:
        """The attributes that are unbacked sizes: a run of the call tells their values."""
        names = self._births
        if names is None:
            tells = Fact.DATA_DEPENDENT in self.facts
            names = tuple([attr.name for attr in self.schema.attributes if attr.type in UNBACKED]) if tells else ()
            self._births = names
        return names

    def check_family(self, operands: tuple[Any, ...]) -> None:
        """D001, or D006 for complex ones, unless the first tensor's dtype is of the accepted family."""
        first = operands[0] if operands else None
        first = first[0] if isinstance(first, tuple) and first else first
        if isinstance(first, TensorType) and not first.weak and first.dtype.kind not in FAMILIES[self.dtypes]:
            if first.dtype.kind is Kind.COMPLEX:
                fail("D006", f"{self.name}: complex operands are not supported", operand=first)
            hint = f"accepted dtypes: {self.dtypes}"
            fail("D001", f"{self.name}: not supported for {first.dtype.name}", operand=first, hint=hint)

    def check_accepted(self, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
        """`check_family`, unless operands are converted: by a dtype given, or by pointwise promotion."""
        _check_stored(self, operands)
        accepts = self.dtypes == "all" or attrs.get("dtype") is not None
        if not accepts and (self.meta_rule is None or Fact.POINTWISE not in self.facts):
            self.check_family(operands)

    def infer(self, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        """The result's type: by `meta`, by the view's layout, or else by typing the decomposition.

        Errors: S007 where a size is negative, which kernels rely on; A001 for a complex attribute of real results.
        """
        return _checked_result(self.name, attrs, self._typed(operands, attrs))

    def _typed(self, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        require_registered(self)
        self.check_accepted(operands, attrs)
        named = self.named(operands, attrs)
        if self.meta_rule is not None:
            return self.meta_rule(**named)
        if self.view_rule is not None:
            base: TensorType = operands[0]
            shown = Layout(base.shape, base.strides, 0, base.dtype)
            layout = self.view_rule(**{**named, self.schema.operands[0].name: shown})
            return TensorType(layout.shape, layout.dtype or base.dtype, base.device, layout.strides, base.weak)
        if self.decompose_rule is None:
            fail("X002", f"{self.name}: there is neither a meta, a view nor a decompose rule")
        builder = GraphBuilder()
        nodes = tuple([_parameters(builder, operand, position) for position, operand in enumerate(operands)])
        result = self.decompose_rule(**self.named(nodes, attrs))
        owned = all(output.alias is None for output in self.schema.results)
        results = result if isinstance(result, tuple) else (result,)
        types = [_owned(output.type) if owned else output.type for output in results]
        return tuple(types) if isinstance(result, tuple) else types[0]


def _names_of(rule: Callable[..., Any]) -> tuple[str, ...]:
    # `inspect` is too slow for some hundred rules at import.
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _check_stored(op: Operator, operands: tuple[Any, ...]) -> None:
    """D001 where an operand is of a dtype that is storage alone, and the operator computes."""
    for operand in operands:
        for type_ in operand if isinstance(operand, tuple) else (operand,):
            # The operator is asked last: its flags cost more than the dtypes of all operands.
            if isinstance(type_, TensorType) and type_.dtype.is_storage_only and not _moves_elements(op):
                hint = "convert with .to(dtype) first"
                fail("D001", f"{op.name}: not supported for {type_.dtype.name}", operand=type_, hint=hint)


def _moves_elements(op: Operator) -> bool:
    """Whether it hands elements on as they are, or converts or compares them."""
    if op.facts & (Fact.STORED | Fact.VIEW) or op.shares_rule is not None:
        return True
    return op.meta_rule is None and op.dtypes == "all"


def calls_host(op: Operator, operands: Iterable[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether the host runs a call, or a part of it; `operands` have dtypes, or are numbers."""
    if Fact.COMPLEX_HOST not in op.facts:
        return Fact.HOST in op.facts
    dtypes = [getattr(operand, "dtype", None) for operand in operands]
    return any(dtype is not None and dtype.is_complex for dtype in (*dtypes, attrs.get("dtype")))


def _with_sizes_checked(op: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(rule)
    def checked(*given: Any, **named: Any) -> Any:
        layout = rule(*given, **named)
        if layout is not None:
            _check_sizes(op, layout.shape, layout.shape)
        return layout

    return checked


def _check_sizes(op: str, shape: Iterable[Any], result: object) -> None:
    for size in shape:
        negative = size < 0 if size.__class__ is int else not required(ge(size, 0), f"{op}: no size is negative")
        if negative:
            fail("S007", f"{op}: a size of the result would be negative", result=result)


def _checked_result(op: str, attrs: Mapping[str, Any], inferred: Inferred) -> Inferred:
    types = cast("tuple[TensorType, ...]", inferred if isinstance(inferred, tuple) else (inferred,))
    for type_ in types:
        _check_sizes(op, type_.shape, type_)
    for name, value in attrs.items():
        if value.__class__ is complex and not any(type_.dtype.is_complex for type_ in types):
            fail("A001", f"{op}: {name} must be a real number", value=value)
    return inferred


def _owned(type_: TensorType) -> TensorType:
    """The type of a result that shares no storage: dense."""
    if dense_order(type_.shape, type_.strides) is not None:
        return type_
    return row_major(type_)


def _parameters(builder: GraphBuilder, type_: Any, position: int) -> Any:
    if type_ is None:
        return None
    if isinstance(type_, tuple):
        return tuple([builder.parameter(f"p{position}_{element}", part) for element, part in enumerate(type_)])
    return builder.parameter(f"p{position}", type_)


class Sample:
    """Arguments for one call: numpy arrays (or numbers) for operands, plain values for attributes.

    `domain` names values the harness must keep away from: for example "positive" for log, "nonzero" for a divisor,
    "definite" for a matrix of which the Cholesky factor is asked.
    """

    __slots__ = ("args", "domain", "kwargs")

    def __init__(self, *args: Any, domain: str | None = None, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
        self.domain = domain


class Registry(dict[str, Operator]):
    """Operators by name. One over a batch, as `sum.over_1`, is made when it is first asked for, and is not counted."""

    def __missing__(self, name: str) -> Operator:
        if ".over_" not in name:
            raise KeyError(name)
        return import_module("rushlight.ops.batching").operator_named(name)


OPERATORS = Registry()
GENERATION = array("q", [0])
"""A word that grows with every change, so that caches built from the registry know they are stale; native ones too."""

# Operators that are registered by `defer` and not yet defined, and the modules that define such ones.
_deferred: set[str] = set()
_deferred_modules: set[str] = set()


def _no_world(op: Operator, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    raise TypeError(f"{op.name} has no tensor argument and no eager world is loaded")


_without_tensors: list[Callable[..., Any]] = [_no_world]


def set_creation_handler(handler: Callable[..., Any]) -> None:
    """Says who runs operators that are called without any tensor, such as `full`: `(op, operands, attrs)`."""
    _without_tensors[0] = handler


def define(
    schema: str,
    doc: str,
    *,
    facts: Fact = Fact.NONE,
    dtypes: str = "all",
    autocast: str | None = None,
    variants: str = "function method",
    syntax: str | None = None,
) -> Operator:
    """Registers an operator.

    `dtypes` names the accepted family: all, real, float, inexact (with complex), int, integral (with bool), number,
    ordered (numbers but complex ones).

    `variants`: which forms are generated: function, method, inplace, out. `syntax` is the special method it stands for.
    `autocast` says to what autocast casts operands, as PyTorch does on the CPU: "lower" to its dtype, "float32", or
    None where it leaves them as they are.
    """
    declaration = Declaration(schema, doc, facts, dtypes, autocast, variants, syntax)
    operator = Operator(declaration, _defining_module())
    existing = OPERATORS.get(operator.name)
    if existing is None:
        _register(operator, declaration)
        GENERATION[0] += 1
    elif existing.name in _deferred or existing.module == operator.module in _deferred_modules:
        # The second: the module's import was interrupted and begins again.
        _deferred.discard(existing.name)
        existing.module = operator.module
        existing.declare(declaration)
        operator = existing
        _register(operator, declaration)
    else:
        fail("X002", f"{operator.name}: the operator is defined twice")
    operator.signature = signature_of(schema)
    operator.kernels = {}
    return operator


def _register(operator: Operator, declaration: Declaration) -> None:
    OPERATORS[operator.name] = operator
    if declaration.syntax is not None:
        SYNTAX[declaration.syntax] = operator


def _defining_module() -> str:
    """The name of the module whose body defines an operator, be it through helpers; else of the caller."""
    frame = caller = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return (frame or caller).f_globals.get("__name__", "builtins")


def defer(families: Iterable[tuple[str, tuple[Declaration, ...]]]) -> None:
    """Registers operators whose modules are loaded when a rule of theirs is first asked for.

    `families` are names of modules, each with what it declares; `tools/generate_deferred.py` writes them.
    """
    for module, declarations in families:
        _deferred_modules.add(module)
        for declaration in declarations:
            operator = Operator(declaration, module)
            if operator.name not in OPERATORS:
                _register(operator, declaration)
                _deferred.add(operator.name)


def undefined() -> set[str]:
    """The names of the operators that are registered and whose modules are not loaded."""
    return set(_deferred)


def undefine(name: str) -> None:
    """Removes an operator, for example a user's."""
    del OPERATORS[name]
    _deferred.discard(name)
    GENERATION[0] += 1


def require_registered(op: Operator) -> None:
    """Fails for an operator of a program's that was taken back, or defined again. Errors: A011."""
    if OPERATORS.get(op.name) is not op and Fact.FOREIGN in op.facts:
        hint = "ask rl.ops, or the library, for what has its name now"
        fail("A011", f"{op.name}: the operator was taken back, or defined again", hint=hint)


def typed(node: Node | TensorType) -> TensorType:
    """The type of a graph node; types pass."""
    return node.type if isinstance(node, Node) else node
