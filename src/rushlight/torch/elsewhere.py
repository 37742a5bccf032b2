"""Modules of PyTorch whose names Rushlight has in another module, by their path below `torch`."""

from __future__ import annotations

_LAYERS = (
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

ELSEWHERE: dict[str, str] = {
    "_tensor": "rushlight",
    "functional": "rushlight",
    "multiprocessing": "multiprocessing",
    "utils.hooks": "rushlight.eager.autograd.node",
    "autograd.function": "rushlight.autograd",
    "autograd.gradcheck": "rushlight.autograd",
    **{f"nn.modules.{layer}": f"rushlight.nn.modules.{layer}" for layer in _LAYERS},
    "nn.parameter": "rushlight.nn",
    **{f"optim.{optimizer}": "rushlight.optim" for optimizer in _OPTIMIZERS},
    "autograd.variable": "rushlight.autograd",
}
