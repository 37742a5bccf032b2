"""Modules that are systems, as ordinary PyTorch code: the same text runs on torch, for frozen values, and here.

A case takes the library and a numpy generator, and returns arrays by name. Weights and inputs come from numpy.
"""

import numpy as np
from tests.nn.layer_cases import fill, results, values

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def run(lib, name):
    """Return a case's arrays."""
    rng = np.random.Generator(np.random.PCG64(sum(name.encode())))
    return {key: np.asarray(array) for key, array in CASES[name](lib, rng).items()}


def named(prefix, found):
    return {f"{prefix}.{key}": array for key, array in found.items()}


@case
def attention_options(lib, rng):
    found = {}
    options = [
        {"add_bias_kv": True, "add_zero_attn": True},
        {"kdim": 5, "vdim": 3, "bias": False},
        {"kdim": 5, "vdim": 3, "add_zero_attn": True, "batch_first": True},
    ]
    for at, option in enumerate(options):
        module = fill(lib, rng, lib.nn.MultiheadAttention(8, 2, **option))
        query, key, value = [values(lib, rng, *shape) for shape in ((4, 2, 8), (5, 2, 5), (5, 2, 3))]
        key = key if "kdim" in option else values(lib, rng, 5, 2, 8)
        value = value if "vdim" in option else values(lib, rng, 5, 2, 8)
        if option.get("batch_first"):
            query, key, value = [x.detach().transpose(0, 1).clone().requires_grad_() for x in (query, key, value)]
        padding = lib.tensor([[False, False, True, False, True], [False] * 5])
        mask = lib.tensor(np.triu(np.ones((4, 5), bool), 2))
        output, weights = module(query, key, value, padding, attn_mask=mask, average_attn_weights=at != 1)
        found |= named(at, results(lib, module, output, query, key, value)) | {
            f"{at}.weights": weights.detach().numpy()
        }
        plain, nothing = module(query, key, value, need_weights=False, attn_mask=mask, is_causal=False)
        assert nothing is None
        found[f"{at}.plain"] = plain.detach().numpy()
    module = fill(lib, rng, lib.nn.MultiheadAttention(8, 2))
    x = values(lib, rng, 4, 8)
    output, weights = module(x, x, x, attn_mask=values(lib, rng, 2, 4, 4, grad=False))
    return found | named("alone", results(lib, module, output, x)) | {"alone.weights": weights.detach().numpy()}


@case
def attention_with_static_keys(lib, rng):
    query, key = values(lib, rng, 3, 2, 4), values(lib, rng, 3, 2, 4)
    static = values(lib, rng, 4, 5, 2)
    weights = [values(lib, rng, *shape) for shape in ((12, 4), (12,), (4, 4), (4,))]
    output, scores = lib.nn.functional.multi_head_attention_forward(
        query,
        key,
        key,
        4,
        2,
        weights[0],
        weights[1],
        None,
        None,
        False,
        0.0,
        weights[2],
        weights[3],
        static_k=static,
        static_v=static,
    )
    return results(lib, None, output, query, static, *weights) | {"scores": scores.detach().numpy()}


@case
def encoder_layers(lib, rng):
    found = {}
    options = [{}, {"norm_first": True, "activation": "gelu"}, {"batch_first": True, "bias": False}]
    for at, option in enumerate(options):
        module = fill(lib, rng, lib.nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, **option))
        x = values(lib, rng, 3, 3, 8)
        mask = lib.nn.Transformer.generate_square_subsequent_mask(3)
        padding = lib.tensor([[False, False, True], [False] * 3, [False, True, True]])
        output = module(x, src_mask=mask, src_key_padding_mask=padding.float().masked_fill(padding, float("-inf")))
        found |= named(at, results(lib, module, output, x)) | {
            f"{at}.causal": module(x, mask, is_causal=True).detach().numpy()
        }
    return found


@case
def transformer(lib, rng):
    found = {}
    for batch_first in (False, True):
        module = lib.nn.Transformer(8, 2, 1, 2, 6, dropout=0.0, batch_first=batch_first, norm_first=batch_first)
        module = fill(lib, rng, module)
        source, target = values(lib, rng, 3, 3, 8), values(lib, rng, 3, 3, 8)
        mask = lib.nn.Transformer.generate_square_subsequent_mask(3)
        padding = lib.tensor([[False, False, True], [False] * 3, [False, True, True]])
        output = module(source, target, tgt_mask=mask, memory_key_padding_mask=padding, tgt_is_causal=True)
        found |= named(batch_first, results(lib, module, output, source, target))
    return found


@case
def encoder_leaves_out_padding(lib, rng):
    found = {}
    layer = lib.nn.TransformerEncoderLayer(8, 2, 6, batch_first=True)
    x = values(lib, rng, 2, 4, 8, grad=False)
    left = lib.tensor([[False, False, False, True], [False, False, True, True]])
    ragged = lib.tensor([[False, True, False, True], [False] * 4])
    for nested in (False, True):
        module = fill(lib, rng, lib.nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)).eval()
        for name, padding in (("left", left), ("ragged", ragged)):
            with lib.no_grad():
                found[f"{nested}.{name}"] = module(x, src_key_padding_mask=padding).numpy()
            found[f"{nested}.{name}.grad"] = module(x, src_key_padding_mask=padding).detach().numpy()
    return found
