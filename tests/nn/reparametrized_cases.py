"""Weights that are computed, pruned or fused, as PyTorch code: the same text runs on torch and on Rushlight.

A case takes the library, a generator of numpy and a function that compiles or leaves a module, and returns arrays by
name.
"""

import warnings

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def run(lib, name, compiled=lambda module: module):
    """Return a case's arrays."""
    rng = np.random.Generator(np.random.PCG64(sum(name.encode())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CASES[name](lib, rng, compiled)


def filled(lib, rng, module):
    with lib.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                array = rng.standard_normal(tuple(tensor.shape)).astype(np.float32)
                tensor.copy_(lib.tensor(np.abs(array) + 0.5 if name.endswith("var") else array))
    return module


def trained(lib, rng, module, shape, compiled, steps=3):
    """Return outputs of some steps, gradients, and the state after them."""
    run_module = compiled(module)
    optimizer = lib.optim.SGD(module.parameters(), lr=0.05)
    found = {}
    for step in range(steps):
        x = lib.tensor(rng.standard_normal(shape).astype(np.float32))
        optimizer.zero_grad()
        output = run_module(x)
        weights = lib.tensor(np.cos(np.arange(output.numel())).astype(np.float32).reshape(tuple(output.shape)))
        (output * weights).sum().backward()
        found[f"output{step}"] = output.detach().numpy()
        optimizer.step()
    found |= {f"grad.{name}": p.grad.numpy() for name, p in module.named_parameters()}
    found |= {f"state.{name}": t.detach().numpy() for name, t in module.state_dict().items()}
    return {name: np.array(array) for name, array in found.items()}


def set_vectors(lib, rng, module):
    """Give the singular vectors, which are drawn, values from numpy."""
    with lib.no_grad():
        for name, buffer in module.named_buffers():
            if name.endswith(("_u", "_v")):
                array = rng.standard_normal(tuple(buffer.shape)).astype(np.float32)
                buffer.copy_(lib.tensor(array / np.linalg.norm(array)))
    return module


@case
def symmetric_exponential(lib, rng, compiled):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    class Exponential(lib.nn.Module):
        def forward(self, x):
            return lib.matrix_exp(x * 0.3)

    layer = filled(lib, rng, lib.nn.Linear(3, 3))
    lib.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    lib.nn.utils.parametrize.register_parametrization(layer, "weight", Exponential())
    return trained(lib, rng, layer, (2, 3), compiled)


@case
def rank_one_of_two_tensors(lib, rng, compiled):
    class RankOne(lib.nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, weight):
            u, s, vh = lib.linalg.svd(weight, full_matrices=False)
            root = s[..., :1].sqrt()
            sign = u[..., :1, 0].sign()
            return u[..., :, 0] * root * sign, vh[..., 0, :] * root * sign

    layer = filled(lib, rng, lib.nn.Linear(4, 3))
    lib.nn.utils.parametrize.register_parametrization(layer, "weight", RankOne())
    return trained(lib, rng, layer, (2, 4), compiled)


@case
def parametrized_buffer(lib, rng, compiled):
    class Doubled(lib.nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    class Scale(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", lib.ones(3))
            self.weight = lib.nn.Parameter(lib.ones(3))

        def forward(self, x):
            return x * self.scale * self.weight

    module = filled(lib, rng, Scale())
    lib.nn.utils.parametrize.register_parametrization(module, "scale", Doubled())
    module.scale = lib.tensor([1.0, 2.0, 3.0])
    return trained(lib, rng, module, (2, 3), compiled)


def weight_normed(make, shape, **kwargs):
    def function(lib, rng, compiled):
        layer = filled(lib, rng, make(lib.nn))
        lib.nn.utils.parametrizations.weight_norm(layer, **kwargs)
        return trained(lib, rng, layer, shape, compiled)

    return function


CASES["weight_norm_conv"] = weight_normed(lambda nn: nn.Conv1d(3, 4, 2), (2, 3, 5))
CASES["weight_norm_middle_dim"] = weight_normed(lambda nn: nn.ConvTranspose1d(3, 4, 2), (2, 3, 5), dim=1)
CASES["weight_norm_whole"] = weight_normed(lambda nn: nn.Linear(3, 4), (2, 3), dim=None)


@case
def weight_norm_hook(lib, rng, compiled):
    return trained(lib, rng, lib.nn.utils.weight_norm(filled(lib, rng, lib.nn.Linear(3, 4))), (2, 3), compiled)


def spectral_normed(make, shape, **kwargs):
    def function(lib, rng, compiled):
        layer = filled(lib, rng, make(lib.nn))
        lib.nn.utils.parametrizations.spectral_norm(layer, **kwargs)
        return trained(lib, rng, set_vectors(lib, rng, layer), shape, compiled)

    return function


CASES["spectral_norm_conv"] = spectral_normed(lambda nn: nn.Conv2d(2, 3, 2), (1, 2, 3, 3))
CASES["spectral_norm_transposed"] = spectral_normed(
    lambda nn: nn.ConvTranspose1d(3, 4, 2), (2, 3, 5), n_power_iterations=2
)
CASES["spectral_norm_vector"] = spectral_normed(lambda nn: nn.LayerNorm(4), (2, 4))


@case
def spectral_norm_hook(lib, rng, compiled):
    layer = lib.nn.utils.spectral_norm(filled(lib, rng, lib.nn.Linear(3, 4)))
    return trained(lib, rng, set_vectors(lib, rng, layer), (2, 3), compiled)


def orthogonal(rows, columns, **kwargs):
    def function(lib, rng, compiled):
        layer = filled(lib, rng, lib.nn.Linear(columns, rows))
        if rows == columns:  # a base that does not depend on random numbers
            lib.nn.utils.parametrizations.orthogonal(layer, **kwargs)
        else:
            lib.nn.utils.parametrizations.orthogonal(layer, use_trivialization=False, **kwargs)
        return trained(lib, rng, layer, (2, columns), compiled)

    return function


CASES["orthogonal_exponential"] = orthogonal(3, 3)
CASES["orthogonal_cayley"] = orthogonal(3, 3, orthogonal_map="cayley")
CASES["orthogonal_reflections"] = orthogonal(3, 3, orthogonal_map="householder")
CASES["orthogonal_tall"] = orthogonal(4, 2)
CASES["orthogonal_wide"] = orthogonal(2, 4, orthogonal_map="cayley")


@case
def pruned_in_turns(lib, rng, compiled):
    prune = lib.nn.utils.prune
    layer = filled(lib, rng, lib.nn.Conv1d(3, 4, 2))
    prune.l1_unstructured(layer, "weight", amount=5)
    prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)
    prune.ln_structured(layer, "weight", amount=1, n=float("inf"), dim=1)
    prune.custom_from_mask(layer, "bias", lib.tensor([1, 0, 1, 1]))
    found = trained(lib, rng, layer, (2, 3, 5), compiled)
    prune.remove(layer, "weight")
    return found | {f"removed.{name}": np.array(t.detach().numpy()) for name, t in layer.state_dict().items()}


@case
def pruned_together(lib, rng, compiled):
    prune = lib.nn.utils.prune
    first, second = filled(lib, rng, lib.nn.Linear(3, 4)), filled(lib, rng, lib.nn.Linear(4, 2))
    places = [(first, "weight"), (second, "weight"), (second, "bias")]
    prune.global_unstructured(places, pruning_method=prune.L1Unstructured, amount=0.4)
    scores = {(first, "weight"): -first.weight.detach().abs() + 10}
    prune.global_unstructured(places, prune.L1Unstructured, importance_scores=scores, amount=3)
    return trained(lib, rng, lib.nn.Sequential(first, second), (2, 3), compiled)


@case
def fused(lib, rng, compiled):
    nn, x = lib.nn, lib.tensor(rng.standard_normal((2, 3, 5)).astype(np.float32))
    found = {}
    for name, layer, transposed in (("conv", nn.Conv1d(3, 4, 2, bias=False), False),
                                    ("transposed", nn.ConvTranspose1d(3, 4, 2), True)):  # fmt: skip
        filled(lib, rng, layer)
        both = layer.eval(), filled(lib, rng, nn.BatchNorm1d(4)).eval()
        one = nn.utils.fuse_conv_bn_eval(*both, transpose=transposed)
        found |= {f"{name}.weight": one.weight, f"{name}.bias": one.bias, f"{name}.output": compiled(one)(x)}
    linear, norm = filled(lib, rng, nn.Linear(5, 3)).eval(), nn.BatchNorm1d(3).eval()
    one = nn.utils.fuse_linear_bn_eval(linear, filled(lib, rng, norm))
    found |= {"linear.weight": one.weight, "linear.bias": one.bias, "linear.output": compiled(one)(x)}
    return {name: tensor.detach().numpy() for name, tensor in found.items()}
