"""Policies that keep results of some operators of a checkpointed function: these run once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from rushlight.eager.handle import Handle, Version, share
from rushlight.eager.interception import TorchDispatchMode
from rushlight.eager.mutation import Mutation
from rushlight.eager.override.operator_function import OperatorFunction
from rushlight.eager.pytree import map_tree
from rushlight.ops.record import OPERATORS, Operator
from rushlight.support.errors import fail, require


class CheckpointPolicy(Enum):
    """What to do with an operator's result: keep it for the backward pass, or compute it again there.

    Memory of other devices is not different from our own, so that what is to be moved to the CPU is kept. `PREFER` and
    `MUST` are the same.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_KEPT = (
    CheckpointPolicy.MUST_SAVE,
    CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD,
    CheckpointPolicy.PREFER_CPU_OFFLOAD,
)


class SelectiveCheckpointContext:
    """What a policy is told: whether this is the second run, and in the first the operator's result."""

    def __init__(self, *, is_recompute: bool, op_output: object = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., object]
SavedResults = dict[OperatorFunction, list[tuple[object, list[tuple[Version, int]]]]]


def decided(
    policy: Policy,
    context: SelectiveCheckpointContext,
    op: OperatorFunction,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> bool:
    """Whether a policy keeps a result; what writes always runs again."""
    if not isinstance(op.operator, Operator) or op.operator is OPERATORS["detach"]:
        return False
    decision = policy(context, op, *args, **kwargs)
    if isinstance(decision, bool):
        return decision
    require(isinstance(decision, CheckpointPolicy), "A001", "a policy returns a CheckpointPolicy", returned=decision)
    return decision in _KEPT


class SelectiveMode(TorchDispatchMode):
    """Base of the two runs' modes."""

    def __init__(self, policy: Policy, kept: SavedResults) -> None:
        self.policy = policy
        self.kept = kept


class KeepResults(SelectiveMode):
    """The first run: keeps what the policy says."""

    def __torch_dispatch__(
        self,
        func: OperatorFunction,
        types: object,
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Runs one call, and keeps its result if the policy says so."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if decided(self.policy, SelectiveCheckpointContext(is_recompute=False, op_output=result), func, args, kwargs):
            tensors = result if isinstance(result, tuple) else (result,)
            versions = [(tensor.version, tensor.version.value) for tensor in tensors if isinstance(tensor, Handle)]
            self.kept.setdefault(func, []).append((map_tree(_shared, result), versions))
        return result


class GiveResults(SelectiveMode):
    """The second run: answers from what was kept."""

    def __init__(self, policy: Policy, kept: SavedResults, mutation_allowed: bool) -> None:
        super().__init__(policy, kept)
        self._mutation_allowed = mutation_allowed
        self._next: dict[object, int] = {}

    def __enter__(self) -> GiveResults:
        self._next = {}
        return super().__enter__()

    def __torch_dispatch__(
        self,
        func: OperatorFunction,
        types: object,
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Gives the result that was kept of a call, or runs it."""
        kwargs = kwargs or {}
        if isinstance(func.operator, Mutation) or not decided(
            self.policy, SelectiveCheckpointContext(is_recompute=True), func, args, kwargs
        ):
            return func(*args, **kwargs)
        number = self._next.get(func, 0)
        results = self.kept.get(func, [])
        if number >= len(results):
            fail(
                "G020",
                f"checkpoint: the second run calls {func.__name__} more often than the first",
                first=len(results),
            )
        self._next[func] = number + 1
        result, versions = results[number]
        if not self._mutation_allowed and any(version.value != before for version, before in versions):
            fail(
                "G003",
                f"checkpoint: a result of {func.__name__} that was kept was changed in place",
                hint="allow_cache_entry_mutation=True leaves that unchecked",
            )
        return map_tree(_shared, result)


def _shared(tensor: object) -> object:
    return share(tensor) if isinstance(tensor, Handle) else tensor


def _operator_of(operator: object) -> object:
    """An operator that a list names: itself, its name, or a function that calls it."""
    if isinstance(operator, Operator):
        return operator
    if isinstance(operator, OperatorFunction):
        return operator.operator
    name = operator if isinstance(operator, str) else getattr(operator, "__name__", "")
    op = OPERATORS.get(name) if isinstance(name, str) else None
    require(
        op is not None, "A002", "create_selective_checkpoint_contexts: there is no such operator", operator=operator
    )
    return op


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[object], allow_cache_entry_mutation: bool = False
) -> tuple[SelectiveMode, SelectiveMode]:
    """Return what `checkpoint` takes as `context_fn()`: scopes for the two runs of a function.

    A policy gets a `SelectiveCheckpointContext`, an operator and its arguments, and returns a `CheckpointPolicy`. A
    list names the operators whose results are kept: `["matmul"]` or `[rl.matmul]`.

    ```python
    context_fn = functools.partial(create_selective_checkpoint_contexts, [rl.matmul])
    y = checkpoint(block, x, use_reentrant=False, context_fn=context_fn)
    ```
    """
    policy: Policy
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        listed = isinstance(policy_fn_or_list, (list, tuple))
        require(listed, "A001", "create_selective_checkpoint_contexts: a policy, or a list of operators")
        chosen = [_operator_of(operator) for operator in policy_fn_or_list]

        def listed_policy(context: object, op: object, *args: object, **kwargs: object) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in chosen else CheckpointPolicy.PREFER_RECOMPUTE

        policy = listed_policy
    kept: SavedResults = {}
    return KeepResults(policy, kept), GiveResults(policy, kept, allow_cache_entry_mutation)
