"""Forward and backward passes of joint graphs, as modules of nodes: what is kept between them, and how they are run.

A joint module takes what the function takes, then the gradients of its results, and gives the results, then the
gradients of its arguments. The names are those of `torch._functorch.partitioners`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.autodiff.partition import split_joint
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.lowered import graph_module, graph_of
from rushlight.support import settings
from rushlight.support.errors import require

__all__ = ["default_partition", "min_cut_rematerialization_partition", "split"]


def split(
    joint: GraphModule, n_fwd: int, *, recompute: bool = True, budget: float = 1.0, living: Sequence[int] = ()
) -> tuple[GraphModule, GraphModule]:
    """Return the forward and backward pass of a joint module whose first `n_fwd` results are its own.

    The last `n_fwd` inputs are the gradients of the results, unless inputs are named "tangents_1" and so on. The
    forward module takes the other inputs and gives the results, then what is saved; the backward module takes what is
    saved, then the gradients of the results. Unless `recompute`, only views are made again. `budget` is as the setting
    `activation_memory_budget`, and `living` are positions of inputs that cost nothing to keep. Bits stay as they are.

    forward, backward = rl.compiler.partition.split(joint, 1)
    result, *saved = forward(x)
    gradients = backward(*saved, rl.ones_like(result))
    """
    graph = graph_of(joint)
    named = [node.name for node in joint.graph.nodes if node.op == "placeholder"]
    tangents = sum([name.startswith("tangents") for name in named]) or n_fwd
    require(
        0 < tangents < len(named), "A002", "split: a joint graph takes arguments, then gradients", inputs=len(named)
    )
    made = split_joint(graph, n_fwd, tangents, living=living, recompute=recompute, budget=budget)
    require(not made.sizes, "A006", "split: a size that is needed is shown by no tensor that is kept")
    kept = [made.forward.parameters[position] for position in made.inputs]
    kept += [made.forward.outputs[position] for position in made.saved]
    forward = graph_module(replace(made.forward, outputs=(*made.forward.outputs[:n_fwd], *kept)), "ForwardModule")
    return forward, graph_module(made.backward, "BackwardModule")


def default_partition(
    joint_module: GraphModule,
    _joint_inputs: object = None,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None = None,
) -> tuple[GraphModule, GraphModule]:
    """Return the forward and the backward pass of a joint module: nothing but views is made again."""
    return split(joint_module, num_fwd_outputs, recompute=False, living=static_lifetime_input_indices or ())


def min_cut_rematerialization_partition(
    joint_module: GraphModule,
    _joint_inputs: object = None,
    compiler: str = "inductor",
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None = None,
) -> tuple[GraphModule, GraphModule]:
    """Return the forward and the backward pass of a joint module: the fewest bytes are kept."""
    budget = settings.get().activation_memory_budget
    return split(joint_module, num_fwd_outputs, budget=budget, living=static_lifetime_input_indices or ())
