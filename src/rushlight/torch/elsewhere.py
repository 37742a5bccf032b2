"""Modules of PyTorch whose names Rushlight has in another module, by their path below `torch`."""

from __future__ import annotations

_LAYERS = (
    "adaptive",
    "instancenorm",
    "lazy",
    "activation",
    "batchnorm",
    "channelshuffle",
    "container",
    "conv",
    "distance",
    "dropout",
    "flatten",
    "fold",
    "linear",
    "loss",
    "module",
    "normalization",
    "padding",
    "pixelshuffle",
    "pooling",
    "rnn",
    "sparse",
    "transformer",
    "upsampling",
)
_OPTIMIZERS = (
    "_adafactor",
    "_muon",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "lbfgs",
    "nadam",
    "optimizer",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
)
# Modules of torch.distributions that are named as others here, by the module that has their classes.
_DISTRIBUTIONS = {
    "chances": ("bernoulli", "categorical", "one_hot_categorical"),
    "circle": ("von_mises",),
    "counts": ("binomial", "geometric", "multinomial", "negative_binomial", "poisson"),
    "distribution": ("distribution", "exp_family"),
    "gammas": ("chi2", "fishersnedecor", "gamma", "inverse_gamma", "studentT"),
    "half_line": ("exponential", "half_cauchy", "half_normal", "log_normal"),
    "heavy_tails": ("generalized_pareto", "gumbel", "kumaraswamy", "pareto", "weibull"),
    "location_scale": ("cauchy", "laplace", "normal", "uniform"),
    "matrices": ("lkj_cholesky", "wishart"),
    "multivariate": ("lowrank_multivariate_normal", "multivariate_normal"),
    "parameters": ("utils",),
    "relaxed": ("continuous_bernoulli", "logistic_normal", "relaxed_bernoulli", "relaxed_categorical"),
    "simplex": ("beta", "dirichlet"),
    "transformed": ("transformed_distribution",),
    "wrapped": ("independent", "mixture_same_family"),
}

_DISTRIBUTED = {
    "_composable.fsdp": "fsdp",
    "_functional_collectives": "_functional_collectives",
    "_tensor": "tensor",
    "_tensor.device_mesh": "device_mesh",
    "checkpoint": "checkpoint",
    "checkpoint.state_dict": "checkpoint.state_dict",
    "checkpoint.stateful": "checkpoint",
    "device_mesh": "device_mesh",
    "distributed_c10d": "",
    "fsdp": "fsdp",
    "optim": "optim",
    "pipelining": "pipelining",
    "tensor": "tensor",
    "tensor.experimental": "tensor.experimental",
    "tensor.parallel": "tensor.parallel",
}

ELSEWHERE: dict[str, str] = {
    "_tensor": "rushlight",
    "_functorch.aot_autograd": "rushlight.compiler.aot_autograd",
    "_functorch.compilers": "rushlight.compiler.aot_autograd",
    "_functorch.partitioners": "rushlight.compiler.partition",
    "functional": "rushlight",
    "fx._symbolic_trace": "rushlight.fx._symbolic_trace",
    "fx._pytree": "rushlight.utils._pytree",
    "multiprocessing": "multiprocessing",
    "torch": "rushlight",
    "utils._pytree": "rushlight.utils._pytree",
    "utils._python_dispatch": "rushlight.utils._python_dispatch",
    "utils.hooks": "rushlight.eager.autograd.node",
    "autograd.function": "rushlight.eager.autograd.function",
    "autograd.gradcheck": "rushlight.autograd",
    "_dynamo.backends.common": "rushlight.compiler.aot_autograd",
    "_dynamo.backends.registry": "rushlight.compiler.backends",
    "_dynamo.callback": "rushlight.compiler.callback",
    "_dynamo.compiled_autograd": "rushlight.compiler.compiled_autograd",
    **{f"nn.modules.{layer}": f"rushlight.nn.modules.{layer}" for layer in _LAYERS},
    "nn.parallel.data_parallel": "rushlight.nn.parallel",
    "nn.parallel.distributed": "rushlight.nn.parallel",
    **{f"optim.{optimizer}": "rushlight.optim" for optimizer in _OPTIMIZERS},
    "autograd.variable": "rushlight.autograd",
    "distributed._tensor.placement_types": "rushlight.ir.placement",
    "distributed.tensor.placement_types": "rushlight.ir.placement",
    **{
        f"distributed.{name}": f"rushlight.distributed.{module}".removesuffix(".")
        for name, module in _DISTRIBUTED.items()
    },
    **{
        f"distributions.{name}": f"rushlight.distributions.{module}"
        for module, names in _DISTRIBUTIONS.items()
        for name in names
    },
}
