"""Handle: what the engines of eager know of a tensor. `Tensor` is a Handle with the user's methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn, TypeVar

from rushlight.eager.dispatch import BACKENDS, STATE, Dispatched, Key, bit, dispatch
from rushlight.eager.tensor_meta import Size, TensorMeta, form_of
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU, Device
from rushlight.ir.type import META as META_DEVICE
from rushlight.ops.record import Operator
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import allocate_on
from rushlight.support.errors import fail, require
from rushlight.sym import Size as SymbolicSize
from rushlight.term import Op

AUTOGRAD = bit(Key.AUTOGRAD)
META = bit(Key.META)
_BATCHED = bit(Key.BATCHED)
SPARSE = bit(Key.SPARSE)
PYTHON = bit(Key.PYTHON)
PARAMETER_MARK = "_is_param"
"""The attribute of a parameter that is of a subclass."""
BUFFER_MARK = "_is_buffer"
"""The attribute of a tensor that a module registers as a buffer, when it is given to an attribute."""
BATCHED = bit(Key.BATCHED)


class Version:
    """Counts the writes to a storage; shared by all tensors that are views of each other.

    `hidden` is there once `hidden_writes` was asked for.
    """

    __slots__ = ("hidden", "value")

    hidden: Version

    def __init__(self) -> None:
        self.value = 0


class HiddenVersion(Version):
    """Counts the writes to a tensor's `data`, of which autograd knows nothing."""

    __slots__ = ("_value",)

    def __init__(self, of: Version) -> None:
        self.hidden = hidden_writes(of)
        self._value = 0

    @property
    def value(self) -> int:
        """The number of writes."""
        return self._value

    @value.setter
    def value(self, value: int) -> None:
        self._value = value
        self.hidden.value += 1


def hidden_writes(version: Version) -> Version:
    """Counts the writes that a counter leaves out: those to what was ever taken as `data` of its tensors."""
    counter: Version | None = getattr(version, "hidden", None)
    if counter is None:
        counter = version.hidden = Version()
    return counter


H = TypeVar("H", bound="Handle")
Step = tuple[Operator, tuple[object, ...], Mapping[str, object]]


class View:
    """How a tensor shows another one: apply `steps` (operator, further operands, attributes) in order to `base`.

    The base is no view itself. `rebases` is the number of times the base's history had been rewritten when this view's
    gradient function was made; `recorded` says whether autograd was recording when the view was made.
    """

    __slots__ = ("_base", "rebases", "recorded", "steps")

    def __init__(self, base: Handle, steps: tuple[Step, ...], recorded: bool, rebases: int) -> None:
        self._base = base
        self.steps = steps
        self.recorded = recorded
        self.rebases = rebases

    @property
    def base(self) -> Handle:
        """The tensor that the steps apply to.

        One whose dims were changed in place is a view of what it was from then on, and so are its views.
        """
        if self._base.view_of is not None:
            self._base = self._base.view_of.base
        return self._base


class Gradient:
    """A tensor's place in autograd: a leaf that wants a gradient, or output `output` of a node."""

    __slots__ = ("accumulated", "grad", "hooks", "node", "output", "rebases", "required", "retained", "sink")

    def __init__(self) -> None:
        self.required = False  # asked for by requires_grad=True, on a leaf
        self.grad: Any = None
        self.node: Any = None
        self.output = 0
        self.rebases = 0  # how often a write through a view, or to a base of views, rewrote the history
        self.hooks: dict[int, Callable[..., object]] | None = (
            None  # of a leaf; those of other tensors are on their node
        )
        self.accumulated: dict[int, Callable[..., object]] | None = None  # hooks after accumulation, of a leaf
        self.retained = False
        self.sink: Any = None  # weak reference to the step that accumulates into `grad`


class History:
    """A tensor's place in autograd at one moment, so that it can be restored."""

    __slots__ = ("_fields", "_gradient", "_keys", "_rebases", "_tensor")

    def __init__(self, tensor: Handle) -> None:
        gradient, view = tensor.gradient, tensor.view_of
        self._tensor = tensor
        self._keys = tensor.keys
        self._gradient = gradient
        self._fields = None if gradient is None else (gradient.node, gradient.output, gradient.rebases)
        self._rebases = None if view is None else view.rebases

    @property
    def node(self) -> Any:
        """The node that had made the tensor. None for a leaf."""
        return None if self._fields is None else self._fields[0]

    @property
    def output(self) -> int:
        """Which output of that node the tensor was."""
        return 0 if self._fields is None else self._fields[1]

    @property
    def is_current(self) -> bool:
        """Whether the tensor is still the same output of the same node."""
        record = self._tensor.gradient
        return record is self._gradient and (record is None or (record.node, record.output) == (self.node, self.output))

    def restore(self) -> None:
        """Makes the tensor what it was; right also when it is done twice."""
        tensor, view = self._tensor, self._tensor.view_of
        if self._gradient is not None and self._fields is not None:
            self._gradient.node, self._gradient.output, self._gradient.rebases = self._fields
        tensor.gradient = self._gradient
        tensor.keys = self._keys
        if view is not None and self._rebases is not None:
            view.rebases = self._rebases


class Histories:
    """Tensors' places in autograd before a trace replaced them."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, History] = {}

    def keep(self, tensor: Handle) -> None:
        """Called before a tensor's place in autograd is replaced: `restore` brings the one back that it has now."""
        if id(tensor) not in self._kept:
            self._kept[id(tensor)] = History(tensor)

    def before(self, tensor: Handle) -> History:
        """A tensor's place in autograd before it was replaced."""
        return self._kept.get(id(tensor)) or History(tensor)

    def restore(self) -> None:
        """Makes the tensors what they were; right also when it is begun again."""
        for history in self._kept.values():
            history.restore()
        self._kept.clear()


class Handle(Dispatched):
    """A strided view of a storage.

    `backing`, the storage, is None for meta and fake tensors; `offset` is in elements; `form` has shape, strides,
    dtype and device; `view_of` says of what it is a view; `gradient` is None until autograd is concerned; `node` is
    what a tracer put there.
    """

    __slots__ = ("__dict__", "__weakref__", "backing", "form", "gradient", "node", "offset", "version", "view_of")

    class_keys: ClassVar[int] = 0  # keys that all tensors of a class have

    backing: Storage | None
    offset: Any
    form: TensorMeta
    version: Version
    view_of: View | None
    gradient: Gradient | None
    node: Any

    def apply(self, op: Op, args: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
        """Dispatches an operator call; one without tensors, such as `full`, goes to this tensor's device."""
        return dispatch(op, args, attrs, self.keys & BACKENDS)

    @property
    def shape(self) -> Size:
        """The sizes of its dims."""
        return self.form.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.form.dtype

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self.form.device

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.form.shape)

    def address(self) -> int:
        """Where its first element lies; V003 for a tensor without data."""
        storage = self.backing
        if storage is None:
            fail_without_data(self)
        return storage.address + self.offset * self.form.dtype.itemsize

    def __error_text__(self) -> str:
        return str(self.form.type)


def fail_without_data(tensor: Handle) -> NoReturn:
    """The error of reading a tensor without data: C002 in a traced program, C010 for what is left of one, else V003."""
    if tensor.keys & SPARSE:
        fail("A006", "a sparse tensor has no memory in which all elements lie", hint="convert it first: x.to_dense()")
    if tensor.keys & _BATCHED:
        hint = "keep to operators, and select with rl.where"
        fail("A006", "vmap: a tensor inside stands for all places of the batch, and has no one value", hint=hint)
    if STATE.tracer is not None:
        hint = "keep to operators, select with rl.where, branch with rl.cond, or do this outside the compiled function"
        origin = STATE.tracer.origin(tensor)
        fail("C002", "a traced program asks for the value of a tensor", tensor=tensor, made_by=origin, hint=hint)
    if tensor.form.symbolic or tensor.form.device != META_DEVICE:
        fail("C010", "the tensor stood for a value of a traced program, and has none of its own", tensor=tensor)
    fail("V003", "the tensor has no data", tensor=tensor)


_public: list[type[Handle]] = [Handle]


def adopt(cls: type[Handle]) -> None:
    """Makes `cls` the class of new tensors; called once by the module of the public class."""
    _public[0] = cls


def adopted() -> type[Handle]:
    """The class of new tensors."""
    return _public[0]


_moves = [0]


def moves() -> int:
    """How often a tensor was given other memory, or another `requires_grad`, than it was made with."""
    return _moves[0]


def note_move() -> None:
    """Counts one more."""
    _moves[0] += 1


def move(tensor: Handle, of: Handle) -> None:
    """Makes a tensor show the memory of another one, wherever that is, or hold what that holds.

    Errors: A001 where one of them holds other tensors, and the other one is of another class.
    """
    if is_wrapper(tensor) or is_wrapper(of):
        require(type(tensor) is type(of), "A001", "data: a tensor of another class", own=type(tensor), given=type(of))
        held = {name: value for name, value in vars(of).items() if name != PARAMETER_MARK}
        vars(tensor).update(held)
    tensor.backing, tensor.offset, tensor.form = of.backing, of.offset, of.form
    tensor.keys = tensor.keys & ~BACKENDS | of.keys & BACKENDS
    note_move()


def make(storage: Storage | None, form: TensorMeta, offset: SymbolicSize = 0, cls: type[Handle] | None = None) -> Any:
    """A new tensor that is no view and has no history."""
    cls = cls or _public[0]
    self = cls.__new__(cls) if cls.__new__ is object.__new__ else object.__new__(cls)
    self.backing = storage
    self.offset = offset
    self.form = form
    self.keys = (form.keys if storage is not None else META) | cls.class_keys
    self.version = Version()
    self.view_of = None
    self.gradient = None
    self.node = None
    return self


def make_view(base: Handle, form: TensorMeta, offset: SymbolicSize) -> Any:
    """A new tensor on the same storage and version counter; says nothing of how it is related."""
    cls = _public[0]
    self = object.__new__(cls)
    self.backing = base.backing
    self.offset = offset
    self.form = form
    self.keys = form.keys if base.backing is not None else META
    self.version = base.version
    self.view_of = None
    self.gradient = None
    self.node = None
    return self


def allocate(form: TensorMeta) -> Any:
    """A new tensor with undefined contents; without data on the meta device and for symbolic sizes."""
    if form.symbolic or form.keys == META:
        return make(None, form)
    if form.device is CPU:
        return make(Storage.allocate(form.nbytes), form)
    return make(allocate_on(form.device)((form.nbytes,))[0], form)


def fit_empty(target: Handle, shape: tuple[SymbolicSize, ...]) -> None:
    """Give a tensor without elements memory for a result of another shape, as `out=` asks for.

    Nothing happens in a trace, where a value keeps its shape, nor to a view; shapes have to agree then.
    """
    plain = target.view_of is None and target.node is None and STATE.tracer is None
    if plain and not target.form.numel and target.form.shape != shape:
        move(target, allocate(form_of(shape, target.form.dtype, target.form.device)))


def share(tensor: Handle, *, own_version: bool = False) -> Any:
    """The same elements without history; `own_version`: writes to it are not counted as the tensor's."""
    if tensor.keys & SPARSE:
        fail_without_data(tensor)
    if is_wrapper(tensor):
        result = twin(tensor)
        result.view_of = result.gradient = None
    else:
        result = make_view(tensor, tensor.form, tensor.offset)
    if STATE.tracer is None:
        result.node = tensor.node
    elif not is_wrapper(tensor):
        STATE.tracer.share(tensor, result)
    if own_version:
        result.version = HiddenVersion(tensor.version)
    result.keys = tensor.keys & ~AUTOGRAD
    return result


def wrap(handle: Handle, cls: type[H]) -> H:
    """A tensor as another class of tensors, on the same storage."""
    if type(handle) is cls:
        return handle
    result = _of_class(handle, cls)
    result.keys |= cls.class_keys
    return result


def twin(tensor: H) -> H:
    """Another tensor of the same class that shows the same and has the same attributes and history."""
    result = _of_class(tensor, type(tensor))
    vars(result).update(vars(tensor))
    if STATE.tracer is not None and is_wrapper(tensor):
        STATE.tracer.note_wrapper(result)
    return result


def is_wrapper(tensor: Handle) -> bool:
    """Whether a tensor is of a subclass, and holds other tensors instead of elements."""
    return bool(tensor.keys & PYTHON) and tensor.backing is None and type(tensor) is not _public[0]


def _of_class(handle: Handle, cls: type[H]) -> H:
    result = object.__new__(cls)
    for name in ("backing", "offset", "form", "keys", "version", "view_of", "gradient", "node"):
        setattr(result, name, getattr(handle, name))
    return result


def mark_required(tensor: Handle) -> None:
    """Makes a tensor a leaf that requires gradients."""
    gradient_of(tensor).required = True
    tensor.keys |= AUTOGRAD


def gradient_of(tensor: Handle) -> Gradient:
    """The tensor's autograd record, made when there is none."""
    if tensor.gradient is None:
        tensor.gradient = Gradient()
    return tensor.gradient
