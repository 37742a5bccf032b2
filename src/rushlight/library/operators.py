"""Custom operators: what a program defines and registers, as records of the registry with kernels at the dispatcher.

An operator is opaque to the compiler: one call of a graph, which the host runs. One that writes to arguments is traced
as its functional form, `ns::name.functional`, which gives what was written as further results. One that returns nothing
and writes to nothing has an effect, and such calls keep their order: they hand on a token, a tensor that each of them
overwrites.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight.eager.creation import zeros
from rushlight.eager.dispatch import (
    STATE,
    Key,
    Registration,
    backend_key,
    call_below,
    call_function,
    refuse_in_graphs,
    register,
)
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import Handle
from rushlight.eager.interception import intercept
from rushlight.eager.mutation import COPY
from rushlight.eager.override.operator_function import OperatorFunction, adopt_function, forget_function
from rushlight.ir.dtype import DType, Kind, int64
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands
from rushlight.library import calls
from rushlight.library.calls import Attrs, FakeContext, Formula, Operands, Rule
from rushlight.library.schemas import infer_schema, registry_schema
from rushlight.library.tags import layout_of
from rushlight.ops.record import OPERATORS as RECORDS
from rushlight.ops.record import Fact, Operator, define, undefine
from rushlight.ops.schema import parse_schema
from rushlight.support.errors import fail, require

F = TypeVar("F", bound=Callable[..., object])
Devices = str | Sequence[str] | None

_EVERYWHERE = ("default", "compositeexplicitautograd", "types", "", "catchall")
_COMPOSITE = "compositeimplicitautograd"

OPERATORS: dict[str, CustomOpDef] = {}
"""The custom operators that are defined, by name."""
_lock = threading.RLock()
_token: list[Handle] = []


def token() -> Handle:
    """What calls with effects hand on, so that a program keeps all of them, in order."""
    if not _token:
        _token.append(zeros((), dtype=int64))
    return _token[0]


def _refuse_in_graphs(name: str) -> None:
    refuse_in_graphs(f"a registration of {name}", "it changes what later calls find")


class Definition:
    """What answers at the keys of the dispatcher for a custom operator."""

    def __init__(self, name: str, schema: str, doc: str = "", tags: object = ()) -> None:
        """Registers an operator with a schema in PyTorch's words, that begins with the parenthesis. Errors: A010."""
        require(name.count("::") == 1 and all(name.split("::")), "A010", f"{name}: write a name as namespace::name")
        _refuse_in_graphs(name)
        self._qualname = name
        self.__name__ = name.partition("::")[2]
        self.__doc__ = doc
        self._kernels: dict[str, Rule] = {}
        self._fake: Rule | None = None
        self._rules: dict[Key, list[Registration]] = {}
        self._interceptions: dict[type, Rule] = {}
        self._of_dynamic: list[Registration] = []
        self.revision = 0  # grows with each change of what a trace depends on
        text = registry_schema(name, schema)
        self._facts = Fact.HOST | Fact.FOREIGN | layout_of(tags)
        with _lock:
            self._operator = self._defined(text, doc)
            self._functional = self._defined_functional() if self._writes or self._effect else None
            self._dynamic = self._defined_dynamic() if self._functional is None else None

    def _defined(self, text: str, doc: str) -> Operator:
        if self._qualname in RECORDS:
            fail("A011", f"{self._qualname}: the operator is defined already", hint="choose another name")
        try:
            parse_schema(text)
        except ValueError as problem:
            fail("A010", f"{self._qualname}: {problem}")
        operator = define(text, doc or "A custom operator.", facts=self._facts, variants="")
        operator.meta_rule = self._types
        self._at(Key.CPU, self._run, operator, reenters=True)
        self._at(Key.META, self._on_meta, operator, boxed=True, leaf=True)
        self._at(Key.BATCHED, self._batched, operator, boxed=True)
        self._at(Key.PYTHON, self._intercepted, operator, boxed=True, reenters=True)
        return operator

    @property
    def _writes(self) -> bool:
        return any(parameter.written for parameter in self._operator.schema.operands)

    @property
    def _effect(self) -> bool:
        return not self._operator.schema.results and not self._writes

    def _defined_functional(self) -> Operator:
        """The form in which a trace records an operator that writes, or that has an effect."""
        schema = self._operator.schema
        written = [parameter for parameter in schema.operands if parameter.written]
        plain = re.sub(r"\(\w+!\)", "", _inside(schema.text))
        results = [f"{result.type} out{at}" for at, result in enumerate(schema.results)]
        results += [f"{parameter.type} new_{parameter.name}" for parameter in written]
        if self._effect:
            token()  # not within a trace, which would take it for a value of its own
            plain, results = f"Tensor token, {plain}" if plain else "Tensor token", ["Tensor new_token"]
        text = f"{self._qualname}.functional({plain}) -> ({', '.join(results)})"
        facts = self._facts | Fact.NONDIFFERENTIABLE
        functional = define(text, "The functional form.", facts=facts, variants="")
        functional.meta_rule = self._functional_types
        self._at(Key.CPU, self._run_functional, functional, reenters=True)
        self._at(Key.TRACING, self._traced, self._operator, boxed=True, leaf=True)
        self._at(Key.AUTOGRAD, self._written, self._operator, boxed=True, leaf=True)
        return functional

    def _defined_dynamic(self) -> Operator:
        """The form in which a trace records a call with sizes of results that only its run tells."""
        schema = self._operator.schema
        inside = _inside(schema.text)
        star = "" if re.search(r"(^|,)\s*\*\s*,", inside) else "*, "
        results = schema.text[schema.text.rindex("->") :]
        text = f"{self._qualname}.dynamic({inside}{', ' if inside else ''}{star}unbacked[] sizes=()) {results}"
        facts = self._facts | Fact.DATA_DEPENDENT
        dynamic = define(text, "The form with sizes that a run tells.", facts=facts, variants="")
        dynamic.meta_rule = self._dynamic_types
        self._of_dynamic = [register(dynamic, Key.CPU, self._run_dynamic, reenters=True)]
        for key in (Key.META, Key.BATCHED, Key.PYTHON, Key.TRACING, Key.AUTOGRAD):
            self._of_dynamic.append(register(dynamic, key, self._without_sizes, boxed=True, leaf=True))
        self._at(Key.TRACING, self._recorded, self._operator, boxed=True, leaf=True)
        return dynamic

    def _at(self, key: Key, rule: Rule, operator: Operator, **how: bool) -> None:
        _refuse_in_graphs(self._qualname)
        self._rules.setdefault(key, []).append(register(operator, key, rule, **how))
        self.revision += 1

    # What answers at the keys.

    def _kernel(self) -> Rule:
        kernel = self._kernels.get("cpu") or self._kernels.get("default")
        if kernel is None:
            fail("A011", f"{self._qualname}: no kernel is registered for the CPU", hint="register_kernel(op, 'cpu', f)")
        return kernel

    def _run(self, *operands: object, **attrs: object) -> object:
        return calls.run_kernel(self._operator, self._kernel(), operands, attrs)

    def _types(self, **named: object) -> object:
        types = calls.typed(self._operator, self._fake_kernel(), named)
        return calls.bare_types(self._operator.schema, types)

    def _recorded(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        assert self._dynamic is not None, "an operator that writes nothing has a form with sizes"
        return calls.record_dynamic(op, self._dynamic, self._fake_kernel(), operands, attrs)

    def _dynamic_types(self, sizes: Any, **named: object) -> object:
        return calls.dynamic_types(self._operator, self._fake_kernel(), named, sizes)

    def _run_dynamic(self, *operands: object, sizes: object, **attrs: object) -> object:
        return self._run(*operands, **attrs)

    def _without_sizes(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        """What runs the form runs the operator: its sizes are those of the call that was traced."""
        return call_function(self._operator, operands, {name: attrs[name] for name in attrs if name != "sizes"})

    def types_of(self, named: dict[str, Any], context: FakeContext) -> tuple[TensorType, ...]:
        """What the fake kernel says of the results of a call, by the types of arguments and new sizes."""
        return calls.typed(self._operator, self._fake_kernel(), named, context)

    def _fake_kernel(self) -> Rule:
        fake = self._fake if self._operator.schema.results else lambda *args, **kwargs: None
        if fake is None:
            hint = f"@{self.__name__}.register_fake, a function that returns new_empty(...) of each result's shape"
            fail("A011", f"{self._qualname}: no fake kernel tells the types of its results", hint=hint)
        return fake

    def _on_meta(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        return calls.run_on_meta(self._operator, operands, attrs)

    def _batched(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        return calls.run_batched(self._operator, self._vmap, operands, attrs)

    _vmap: Rule | None = None
    _composite: Rule | None = None
    _autocast_kernel: Rule | None = None

    def _intercepted(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        if self._interceptions and STATE.tracer is None:
            askers = [*reversed(STATE.modes), *[one for one in flatten(operands) if isinstance(one, Handle)]]
            for asker in askers:
                rule = next((rule for kind, rule in self._interceptions.items() if isinstance(asker, kind)), None)
                if rule is not None:
                    return self._answered(rule, asker, operands, attrs)
        return intercept(op, active, operands, attrs)

    def _answered(self, rule: Rule, asker: object, operands: Operands, attrs: Attrs) -> object:
        args, kwargs = calls.arguments_of(self._operator.schema, self._operator.named(operands, attrs))
        types = tuple(dict.fromkeys([type(one) for one in flatten(operands) if isinstance(one, Handle)]))
        first = type(asker) if isinstance(asker, Handle) else asker
        return rule(first, self, types, tuple(args), kwargs)

    def _traced(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        assert self._functional is not None, "an operator that writes has a functional form"
        schema = self._operator.schema
        if not self._effect:
            return calls.record_functional(schema, self._functional, operands, attrs)
        made = STATE.tracer.call(self._functional, (token(), *operands), attrs)
        STATE.tracer.call(COPY, (token(), made[0] if isinstance(made, tuple) else made), {})
        return None

    def _run_functional(self, *operands: object, **attrs: object) -> object:
        schema = self._operator.schema
        if self._effect:
            first, *rest = operands
            self._run(*rest, **attrs)
            assert isinstance(first, Handle), "the token is a tensor"
            return (calls.copy_of(first),)
        written = {id(one) for one in calls.written_operands(schema, operands)}
        copies = map_operands(operands, lambda one: calls.copy_of(one) if id(one) in written else one)
        found = self._run(*copies, **attrs)
        results = () if found is None else found if isinstance(found, tuple) else (found,)
        return (*results, *calls.written_operands(schema, copies))

    def _functional_types(self, **named: object) -> object:
        named.pop("token", None)
        schema = self._operator.schema
        if self._effect:
            return (TensorType((), int64),)
        types = calls.typed(self._operator, self._fake_kernel(), named)
        operands = [named[parameter.name] for parameter in schema.operands]
        pairs = zip(schema.operands, operands, strict=True)
        values = flatten(tuple([operand for parameter, operand in pairs if parameter.written]))
        return (*types, *[calls.value_type(type_) for type_ in values if isinstance(type_, TensorType)])

    def _written(self, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
        refused = calls.record_write(self._operator, active, operands, attrs)
        return call_below(Key.AUTOGRAD, op, active, operands, attrs) if refused is NotImplemented else refused

    def has_rule(self, key: Key) -> bool:
        """Whether something was registered for a key."""
        return key in self._rules

    @property
    def writes(self) -> bool:
        """Whether it writes to arguments, or has another effect."""
        return self._functional is not None

    @property
    def operator(self) -> Operator:
        """Its record in the registry of operators."""
        return self._operator


class Overload(OperatorFunction):
    """The one overload of a custom operator: what modes and subclasses are given for it, and its `default`."""

    def __init__(self, definition: CustomOpDef) -> None:
        super().__init__(definition.operator)
        self.namespace = self.operator.name.partition("::")[0]
        self._definition = definition

    def _apply(self, *args: object, **kwargs: object) -> object:
        return self._definition(*args, **kwargs)

    @property
    def overloadpacket(self) -> CustomOpDef:
        """The operator, as its namespace has it."""
        return self._definition


class CustomOpDef(Definition):
    """A custom operator, which is called like a function. `custom_op` and `Library.define` make it.

    `is_function`: `custom_op` has made it of a function.
    """

    is_function = False

    def __init__(self, name: str, schema: str, doc: str = "", tags: object = ()) -> None:
        """Registers an operator with a schema in PyTorch's words, that begins with the parenthesis. Errors: A010."""
        super().__init__(name, schema, doc, tags)
        self._overload = Overload(self)
        adopt_function(self._overload)
        OPERATORS[name] = self

    @property
    def default(self) -> Overload:
        """The one overload, as a function: the same object that a `__torch_dispatch__` gets."""
        return self._overload

    def overloads(self) -> list[str]:
        """The names of overloads."""
        return ["default"]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Calls the operator."""
        tracer = STATE.tracer
        if tracer is not None:
            tracer.revised.setdefault(id(self), (self, self.revision))
        if self._composite is not None:
            autocast = self._autocast_kernel if _autocasts() else None
            return (autocast or self._composite)(*args, **kwargs)
        operands, attrs = self._operator.bind(args, kwargs)
        return call_function(self._operator, operands, attrs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Devices, func: Rule | None = None, /) -> Any:
        """Registers what runs on a kind of device, or on several; None is all. A decorator without a function.

        A kernel for a device gets tensors that are there. One for all runs on the CPU, on copies of what is elsewhere.
        Errors: A011 where there is a kernel already, V001 for a device that nobody registered.
        """
        devices = (device_types,) if isinstance(device_types, str) or device_types is None else device_types

        def attach(function: F) -> F:
            for device in devices:
                self._attach(device, function)
            return function

        return attach if func is None else attach(func)

    def _attach(self, device: str | None, function: Rule) -> None:
        _refuse_in_graphs(self._qualname)
        if device is not None and device.lower() == _COMPOSITE:
            require(self._composite is None, "A011", f"{self._qualname}: there is a composite kernel already")
            self._composite = function
            self.revision += 1
            return
        name = "default" if device is None or device.lower() in _EVERYWHERE else device.lower()
        key = None if name in ("default", "cpu") or name in _foreign else backend_key(name)
        require(name not in self._kernels, "A011", f"{self._qualname}: there is a kernel for {name} already")
        self._kernels[name] = function
        if key is not None:

            def run(op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
                return calls.run_kernel(op, function, operands, attrs)

            self._at(key, run, self._operator, boxed=True, reenters=True)

    def register_fake(self, function: F, /) -> F:
        """Registers how types follow from types: a function on tensors without data that returns such ones."""
        _refuse_in_graphs(self._qualname)
        require(self._fake is None, "A011", f"{self._qualname}: there is a fake kernel already")
        self._fake = function
        self.revision += 1
        return function

    def forget_fake(self) -> None:
        """Takes the fake kernel back."""
        _refuse_in_graphs(self._qualname)
        self._fake = None
        self.revision += 1

    def register_autograd(self, backward: Rule, /, *, setup_context: Rule | None = None) -> None:
        """Registers the derivative: `backward(ctx, *gradients)`, and `setup_context(ctx, inputs, output)`.

        It is made of operators, so gradients of gradients follow. Errors: A011, also for one that writes.
        """
        require(self._functional is None, "A011", f"{self._qualname}: an operator that writes has no derivative")
        require(Key.AUTOGRAD not in self._rules, "A011", f"{self._qualname}: there is a derivative already")
        formula = Formula(backward, setup_context)

        def record(op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
            return calls.record_call(formula, op, active, operands, attrs)

        self._at(Key.AUTOGRAD, record, self._operator, boxed=True, leaf=True)

    def register_recorder(self, function: Rule, /) -> None:
        """Registers what a call is where a gradient is wanted, as `apply` of a custom Function. Errors: A011.

        Where it calls the operator with gradients off, as in the Function's forward, the operator's kernel runs.
        """
        require(self._functional is None, "A011", f"{self._qualname}: an operator that writes has no derivative")
        require(Key.AUTOGRAD not in self._rules, "A011", f"{self._qualname}: there is a derivative already")

        def record(op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
            return calls.record_by(function, op, active, operands, attrs)

        self._at(Key.AUTOGRAD, record, self._operator, boxed=True, leaf=True)

    def register_vmap(self, func: Rule | None = None, /) -> Any:
        """Registers a rule for batches: `f(info, in_dims, *args)` gives results and their batch dims."""

        def attach(function: F) -> F:
            _refuse_in_graphs(self._qualname)
            require(self._vmap is None, "A011", f"{self._qualname}: there is a rule for batches already")
            self._vmap = function
            self.revision += 1
            return function

        return attach if func is None else attach(func)

    def register_torch_dispatch(self, torch_dispatch_class: type, func: Rule | None = None, /) -> Any:
        """Registers what a mode, or a subclass of Tensor, does with it: `f(mode, op, types, args, kwargs)`."""

        def attach(function: F) -> F:
            _refuse_in_graphs(self._qualname)
            self._interceptions[torch_dispatch_class] = function
            self.revision += 1
            return function

        return attach if func is None else attach(func)

    def register_autocast(self, device_type: str, cast_inputs: DType, /) -> None:
        """Says to what an autocast region casts floating-point operands."""
        require(device_type == "cpu", "A011", f"{self._qualname}: autocast regions are the CPU's", device=device_type)

        def cast(op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
            if not _autocasts():
                return NotImplemented

            def converted(one: object) -> object:
                floating = isinstance(one, Handle) and one.form.dtype.kind is Kind.FLOAT
                return RECORDS["to_dtype"](one, cast_inputs) if floating else one

            return call_below(Key.AUTOCAST, op, active, map_operands(operands, converted), attrs)

        self._at(Key.AUTOCAST, cast, self._operator, boxed=True)

    def register_autocast_kernel(self, device_type: str, function: Rule, /) -> None:
        """Registers what a call is in an autocast region of a kind of device; those of others never are.

        It calls the operator again where regions are off. Errors: A011 where there is one already.
        """
        if device_type != "cpu":
            return
        require(self._autocast_kernel is None, "A011", f"{self._qualname}: there is a kernel for autocast already")
        self._autocast_kernel = function

        def cast(op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
            if not _autocasts():
                return NotImplemented
            args, kwargs = calls.arguments_of(op.schema, op.named(operands, attrs))
            return function(*args, **kwargs)

        self._at(Key.AUTOCAST, cast, self._operator, boxed=True, reenters=True)

    def remove(self) -> None:
        """Takes the operator out of the registry; the second time nothing happens."""
        _refuse_in_graphs(self._qualname)
        with _lock:
            if OPERATORS.get(self._qualname) is not self:
                return
            del OPERATORS[self._qualname]
            self.revision += 1
            for registrations in (*self._rules.values(), self._of_dynamic):
                for registration in registrations:
                    registration.remove()
            undefine(self._qualname)
            forget_function(self._qualname)
            for form in (self._functional, self._dynamic):
                if form is not None:
                    undefine(form.name)


_foreign = ("cuda", "xpu", "mps", "hpu", "mtia", "privateuse1")


def _autocasts() -> bool:
    return STATE.autocast is not None and bool(STATE.autocast_depth)


def _inside(text: str) -> str:
    """What stands between the outer parentheses of a schema's parameters."""
    start = text.index("(")
    return text[start + 1 : text.rindex(")", 0, text.rindex("->"))]


def operator_of(op: object) -> CustomOpDef:
    """The custom operator that is given, or named. Errors: A011 where nobody has defined it."""
    if isinstance(op, CustomOpDef):
        return op
    op = op.name() if isinstance(op, Overload) else op
    found = OPERATORS.get(str(op).partition(".")[0])
    if found is None:
        namespace = str(op).partition("::")[0]
        defined = ", ".join(sorted(name for name in OPERATORS if name.startswith(f"{namespace}::"))) or "none"
        hint = "define it first, by custom_op or Library.define"
        fail("A011", f"library: there is no operator {op}", hint=hint, defined_there=defined)
    return found


def custom_op(
    name: str,
    fn: Rule | None = None,
    /,
    *,
    mutates_args: str | Sequence[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: object = (),
) -> Any:
    """Makes a function an operator, as torch.library.custom_op; a decorator without a function.

    Where the name is that of an earlier function, as in a notebook's cell that runs again, this one takes its place.
    Compiled, exported and batched, it is one call that nobody looks into. The schema follows from annotations. `tags`
    are some of `Tag`, which say how operands lie in compiled programs.

    >>> @custom_op("mine::scaled", mutates_args=())
    ... def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
    ...     return rl.from_numpy(x.numpy() * factor)
    >>> @scaled.register_fake
    ... def _(x, factor=2.0):
    ...     return rl.empty_like(x)
    """

    def make(function: Rule) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        earlier = OPERATORS.get(name)
        if earlier is not None and earlier.is_function:
            earlier.remove()
        made = CustomOpDef(name, text[text.index("(") :], function.__doc__ or "", tags)
        made.is_function = True
        made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)
