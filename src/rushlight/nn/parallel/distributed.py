"""Data parallelism: each rank runs the model on its own part of a batch, and all take the mean of the gradients."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from rushlight.eager.autograd.modes import is_grad_enabled, no_grad
from rushlight.eager.handle import is_wrapper
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.process_group import ProcessGroup, default
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.join import Join, Joinable, JoinHook, rank_of
from rushlight.nn.parallel.reducer import CommunicationHook, Reducer
from rushlight.ops.collective import broadcast_from
from rushlight.support.errors import fail, require

_FIRST_BYTES = 1 << 20  # of the first bucket, which is on its way soonest
_MEBIBYTE = 1 << 20


class DistributedDataParallel(Module, Joinable):
    """A model on every rank of a group: after `backward()` each has the mean of the gradients of all.

    Parameters and buffers are those of the group's first rank when the model is wrapped, and with `broadcast_buffers`
    buffers are at each call. Gradients are sent in buckets of about `bucket_cap_mb` mebibytes while the backward pass
    goes on, and are views of them. `find_unused_parameters` is for models of which a call may leave out parameters.
    Errors: W001 without a group; W002 where ranks have different models; W006 where gradients of a step never came.

    >>> dist.init_process_group()
    >>> model = DistributedDataParallel(model)
    """

    wraps_model: ClassVar[bool] = True

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[object] | None = None,
        output_device: object = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = True,
        static_graph: bool = False,
        **options: object,
    ) -> None:
        super().__init__()
        require(isinstance(module, Module), "A003", f"DistributedDataParallel: {type(module).__name__} is no Module")
        require(not options, "A003", "DistributedDataParallel: options that are not known", options=sorted(options))
        self.module = module
        self.process_group = default() if process_group is None else process_group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        self._divides_by_all = True
        ignored: set[str] = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(name, one) for name, one in module.named_parameters() if name not in ignored and one.requires_grad]
        if not named:
            fail("A002", "DistributedDataParallel: no parameter of the model requires a gradient")
        wrapped = [name for name, one in named if is_wrapper(one)]
        hint = "average their gradients over the group after the backward pass"
        message = "DistributedDataParallel: parameters that hold other tensors, as divided ones do"
        require(not wrapped, "A006", message, parameters=wrapped[:3], hint=hint)
        self._buffers_to_send = [one for name, one in module.named_buffers() if name not in ignored]
        self._check_alike(named)
        if init_sync:
            own = [one.detach() for name, one in module.named_parameters() if name not in ignored]
            take_from([*own, *self._buffers_to_send], self.process_group)
        most = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MEBIBYTE)
        names, parameters = [name for name, _ in named], [one for _, one in named]
        first = min(_FIRST_BYTES, most) if bucket_cap_mb is None else most
        self.reducer = Reducer(parameters, names, self.process_group, first, most)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        reduces = is_grad_enabled() and self.require_backward_grad_sync
        root = 0
        if self._join_config.enable:
            Join.notify_join_context(self)
            root = rank_of(self.process_group, reduces)
        if reduces and self.broadcast_buffers:
            take_from(self._buffers_to_send, self.process_group, root)
        outputs = self.module(*inputs, **kwargs)
        if reduces:
            self._set_factor()
            self.reducer.prepare(outputs, self.find_unused_parameters)
        return outputs

    @contextlib.contextmanager
    def no_sync(self) -> Generator[None]:
        """Within it gradients are added up on each rank alone, until a step outside of it sends them.

        >>> with model.no_sync():
        ...     loss(model(first)).backward()
        >>> loss(model(second)).backward()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Return a scope in which ranks may run out of inputs: they take part in the steps of others until all have.

        Then all have the model of the last one. Gradients are divided by the number of all ranks, or of those that
        have inputs. Collectives of the model's own, as SyncBatchNorm's, need `throw_on_early_termination`.

        >>> with model.join():
        ...     for x in inputs:
        ...         loss(model(x)).backward()
        """
        options: dict[str, object] = {"divide_by_initial_world_size": divide_by_initial_world_size}
        return Join([self], enable, throw_on_early_termination, **options)

    def join_hook(self, **kwargs: object) -> JoinHook:
        """Return what takes part in the steps of other ranks."""
        self._divides_by_all = bool(kwargs.get("divide_by_initial_world_size", True))
        return _TakePart(self)

    def _set_factor(self) -> None:
        """Divide gradients by the ranks that have inputs, where `join` says so, instead of by all."""
        config = self._join_config
        active = config.active if config.enable and not self._divides_by_all else 0
        self.reducer.factor = self.process_group.size / active if active else 1.0

    @property
    def join_device(self) -> object:
        """The device of the parameters."""
        return self.reducer.parameters[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group."""
        return self.process_group

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Sequence[str]
    ) -> None:
        """Let parameters and buffers of these names be each rank's own when the module is wrapped."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)

    def register_comm_hook(self, state: object, hook: CommunicationHook) -> None:
        """Let `hook(state, bucket)` reduce buckets: it returns the reduced values, or a work or future of them."""
        require(callable(hook), "A001", "register_comm_hook: a function is expected", hook=hook)
        require(self.reducer.hook is None, "A002", "register_comm_hook: there is a hook already")
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _check_alike(self, named: Sequence[tuple[str, Parameter]]) -> None:
        """Fail where the ranks have models of different names, shapes or dtypes."""
        text = ";".join([f"{name}:{tuple(one.shape)}:{one.dtype.name}" for name, one in named])
        sums = np.zeros(self.process_group.size, np.int64)
        mine = np.array([zlib.crc32(text.encode())], np.int64)
        self.process_group.all_gather(sums, mine, [1] * len(sums)).wait()
        other = [rank for rank, one in enumerate(sums) if one != sums[0]]
        message = "DistributedDataParallel: ranks have models whose parameters differ in names, shapes or dtypes"
        require(not other, "W002", message, ranks=other)


def take_from(tensors: Iterable[Tensor], group: ProcessGroup, root: int = 0) -> None:
    """Put the elements of a group's first rank, or of another one, into the tensors of all."""
    with no_grad():
        for tensor in tensors:
            sent = broadcast_from(tensor, root, group.name)
            if group.rank != root:
                tensor.copy_(sent)


class _TakePart(JoinHook):
    """Makes the collectives of a model's steps on a rank without inputs."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self._model = model

    def main_hook(self) -> None:
        """Take part in a call and its backward pass, if that is one which reduces gradients."""
        model = self._model
        root = rank_of(model.process_group, False)
        if root < 0:
            return
        if model.broadcast_buffers:
            take_from(model._buffers_to_send, model.process_group, root)
        model._set_factor()
        model.reducer.take_part(model.find_unused_parameters)

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over the model of a rank that had inputs to the end."""
        model = self._model
        root = rank_of(model.process_group, is_last_joiner)
        parameters = [one.detach() for one in model.module.parameters()]
        take_from([*parameters, *model._buffers_to_send], model.process_group, root)
