"""Joint modules in two parts: composed they give what the whole gives, and what is kept is a minimum cut."""

import pytest

import rushlight as rl
from rushlight.compiler import partition
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.nn import functional as F
from tensors import same

FUNCTIONS = {
    "product": lambda x, w: x @ w,
    "gelu": lambda x, w: F.gelu(x @ w) @ w,
    "softmax": lambda x, w: (x @ w).softmax(-1),
    "norm": lambda x, w: F.layer_norm(x @ w, (4,)),
    "residual": lambda x, w: x + (x @ w).tanh(),
    "mean": lambda x, w: (x - x.mean(-1, keepdim=True)) @ w,
    "chain": lambda x, w: (((x @ w).exp() @ w).sin() @ w).cos(),
    "views": lambda x, w: (x.T @ x).T[:, :2] @ w[:2],
    "several": lambda x, w: (x @ w).relu() * (x @ w).sigmoid(),
    "concatenation": lambda x, w: rl.cat([x @ w, x], 0).square(),
}


def joint_of(function):
    def joint(x, w, tangents_1):
        result, back = rl.func.vjp(function, x, w)
        return result, *back(tangents_1)

    x, w = rl.rand(4, 4), rl.rand(4, 4)
    return make_fx(joint)(x, w, rl.ones_like(function(x, w)))


@pytest.mark.row("2.8")
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_joint_graph_in_two_parts_gives_what_it_gives(name, recompute):
    joint = joint_of(FUNCTIONS[name])
    forward, backward = partition.split(joint, 1, recompute=recompute, budget=0.5)
    x, w = rl.rand(4, 4), rl.rand(4, 4)
    result, *saved = forward(x, w)
    tangent = rl.rand(*result.shape)
    for one, other in zip((result, *backward(*saved, tangent)), joint(x, w, tangent), strict=True):
        same(one, other)


def test_the_names_of_pytorch_differ_by_what_they_keep():
    joint = joint_of(FUNCTIONS["gelu"])
    inputs = (rl.rand(4, 4), rl.rand(4, 4))
    kept = [
        len(part(joint, None, num_fwd_outputs=1)[0](*inputs))
        for part in (partition.default_partition, partition.min_cut_rematerialization_partition)
    ]
    assert kept[0] >= kept[1] > 1
