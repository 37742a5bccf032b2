"""Layers and losses as ordinary PyTorch code: the same text runs on torch, for frozen values, and on Rushlight.

A case takes the library and a numpy generator, and returns arrays by name. Weights and inputs come from numpy.
"""

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def run(lib, name):
    """Return a case's arrays."""
    rng = np.random.Generator(np.random.PCG64(sum(name.encode())))
    return CASES[name](lib, rng)


def values(lib, rng, *shape, positive=False, grad=True):
    array = rng.standard_normal(shape).astype(np.float32)
    tensor = lib.tensor(np.abs(array) + 0.1 if positive else array)
    return tensor.requires_grad_(grad)


def fill(lib, rng, module):
    """Give all parameters and float buffers values from numpy."""
    with lib.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                array = rng.standard_normal(tuple(tensor.shape)).astype(np.float32)
                tensor.copy_(lib.tensor(np.abs(array) + 0.5 if name.endswith("var") else array * 0.5))
    return module


def results(lib, module, output, *inputs):
    """Return the output, and all gradients of a weighted sum of it."""
    weights = lib.tensor(np.cos(np.arange(output.numel())).astype(np.float32).reshape(tuple(output.shape)))
    (output * weights).sum().backward()
    found = {"output": output.detach().numpy()}
    found |= {f"input{at}": x.grad.numpy() for at, x in enumerate(inputs) if x.grad is not None}
    if module is not None:
        found |= {f"grad.{name}": p.grad.numpy() for name, p in module.named_parameters()}
        found |= {f"buffer.{name}": b.numpy() for name, b in module.named_buffers()}
    return found


def through(lib, rng, module, *shapes):
    module = fill(lib, rng, module)
    inputs = [values(lib, rng, *shape) for shape in shapes]
    return results(lib, module, module(*inputs), *inputs)


@case
def linear(lib, rng):
    return through(lib, rng, lib.nn.Linear(5, 3), (4, 5))


@case
def linear_without_bias(lib, rng):
    return through(lib, rng, lib.nn.Linear(5, 3, bias=False), (2, 4, 5))


@case
def embedding(lib, rng):
    module = fill(lib, rng, lib.nn.Embedding(7, 3, padding_idx=2))
    return results(lib, module, module(lib.tensor([[0, 2, 6], [1, 2, 0]])))


@case
def bags(lib, rng):
    found = {}
    members = lib.tensor([4, 0, 2, 2, 6, 1, 2, 0, 5])
    offsets = lib.tensor([0, 2, 2, 7])
    for mode in ("sum", "mean", "max"):
        for padding in (None, 2):
            module = fill(lib, rng, lib.nn.EmbeddingBag(7, 3, mode=mode, padding_idx=padding))
            for name, output in (("offsets", module(members, offsets)), ("rows", module(members.reshape(3, 3)))):
                module.zero_grad()
                expected = results(lib, module, output)
                found |= {f"{mode}.{padding}.{name}.{key}": value for key, value in expected.items()}
    return found


@case
def bags_with_weights(lib, rng):
    module = fill(lib, rng, lib.nn.EmbeddingBag(7, 3, mode="sum", include_last_offset=True))
    weights = values(lib, rng, 6)
    members, offsets = lib.tensor([4, 0, 2, 2, 6, 1]), lib.tensor([0, 2, 2, 6])
    return results(lib, module, module(members, offsets, weights), weights)


@case
def layer_norm(lib, rng):
    return through(lib, rng, lib.nn.LayerNorm((3, 4)), (2, 3, 4))


@case
def layer_norm_without_bias(lib, rng):
    return through(lib, rng, lib.nn.LayerNorm(6, bias=False), (5, 6))


@case
def rms_norm(lib, rng):
    return through(lib, rng, lib.nn.RMSNorm(6), (5, 6))


@case
def group_norm(lib, rng):
    return through(lib, rng, lib.nn.GroupNorm(2, 4), (2, 4, 3))


@case
def instance_norms(lib, rng):
    nn, found = lib.nn, {}
    layers = {
        "affine": (nn.InstanceNorm1d(3, affine=True), (2, 3, 5)),
        "single": (nn.InstanceNorm2d(3), (3, 4, 2)),
        "training": (nn.InstanceNorm2d(3, track_running_stats=True, affine=True), (2, 3, 4, 2)),
        "evaluation": (nn.InstanceNorm3d(2, track_running_stats=True, affine=True).eval(), (2, 2, 2, 1, 3)),
    }
    for name, (layer, shape) in layers.items():
        found |= {f"{name}.{key}": value for key, value in through(lib, rng, layer, shape).items()}
    return found


@case
def local_response_across_maps(lib, rng):
    # Outputs alone: PyTorch's gradients are not their derivative.
    odd = lib.nn.CrossMapLRN2d(3, alpha=0.5, k=2.0)(values(lib, rng, 2, 5, 2, 2, grad=False))
    even = lib.nn.CrossMapLRN2d(4, 0.5)(values(lib, rng, 1, 5, 2, 2, grad=False))
    return {"odd": odd.numpy(), "even": even.numpy()}


@case
def adaptive_softmax(lib, rng):
    module = fill(lib, rng, lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5, 9], div_value=1.5, head_bias=True))
    x, target = values(lib, rng, 6, 8), lib.tensor([0, 6, 3, 9, 1, 5])
    output, loss = module(x, target)
    found = results(lib, module, output + loss, x)
    found |= {"all": module.log_prob(x).detach().numpy(), "best": module.predict(x).numpy()}
    return found | {"single": module(x[1], target[1]).loss.detach().numpy()}


@case
def linear_cross_entropy_loss(lib, rng):
    module = fill(lib, rng, lib.nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True, label_smoothing=0.1))
    x = values(lib, rng, 5, 4)
    return results(lib, module, module(x, lib.tensor([[0, 1], [2, 2], [1, 0], [0, 0], [2, 1]])), x)


@case
def lazy_layers(lib, rng):
    nn, found = lib.nn, {}
    layers = {
        "linear": (nn.LazyLinear(4), (2, 3)),
        "conv": (nn.LazyConv2d(4, 3, padding=1, groups=2, bias=False), (1, 2, 4, 4)),
        "transposed": (nn.LazyConvTranspose1d(3, 2, 2), (2, 3, 4)),
        "batch": (nn.LazyBatchNorm1d(), (4, 3)),
        "instance": (nn.LazyInstanceNorm1d(), (2, 3, 4)),
    }
    for name, (layer, shape) in layers.items():
        layer(values(lib, rng, *shape))
        found |= {f"{name}.{key}": value for key, value in through(lib, rng, layer, shape).items()}
    return found


@case
def batch_norm_training(lib, rng):
    return through(lib, rng, lib.nn.BatchNorm2d(3), (2, 3, 4, 4))


@case
def batch_norm_evaluation(lib, rng):
    return through(lib, rng, lib.nn.BatchNorm2d(3).eval(), (2, 3, 4, 4))


@case
def batch_norm_vectors(lib, rng):
    return through(lib, rng, lib.nn.BatchNorm1d(3, momentum=None), (5, 3))


@case
def batch_norm_untracked(lib, rng):
    return through(lib, rng, lib.nn.BatchNorm1d(3, track_running_stats=False, affine=False).eval(), (4, 3, 2))


@case
def convolution_1d(lib, rng):
    return through(lib, rng, lib.nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9))


@case
def convolution_2d(lib, rng):
    return through(lib, rng, lib.nn.Conv2d(2, 4, (3, 2), padding=(1, 0), dilation=(1, 2)), (2, 2, 6, 5))


@case
def convolution_same(lib, rng):
    return through(lib, rng, lib.nn.Conv2d(2, 3, 3, padding="same", bias=False), (1, 2, 4, 5))


@case
def convolution_reflected(lib, rng):
    return through(lib, rng, lib.nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), (1, 1, 4, 4))


@case
def convolution_transposed(lib, rng):
    return through(lib, rng, lib.nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), (1, 3, 3, 3))


@case
def pooling(lib, rng):
    pools = lib.nn.Sequential(lib.nn.MaxPool2d(2), lib.nn.AvgPool2d(2, padding=1), lib.nn.AdaptiveAvgPool2d((2, 1)))
    return through(lib, rng, pools, (2, 3, 8, 6))


@case
def upsampling(lib, rng):
    nn = lib.nn
    modules = [
        nn.Upsample(scale_factor=2),
        nn.Upsample((7, 3), mode="nearest-exact"),
        nn.Upsample(scale_factor=(1.7, 2.3)),
        nn.Upsample(scale_factor=(1.7, 2.3), recompute_scale_factor=True),
        nn.Upsample((9, 11), mode="bilinear"),
        nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True),
        nn.Upsample(scale_factor=0.6, mode="bilinear"),
        nn.Upsample((8, 3), mode="bicubic"),
        nn.Upsample((3, 8), mode="bicubic", align_corners=True),
        nn.Upsample((3, 2), mode="area"),
        nn.UpsamplingNearest2d(scale_factor=3),
        nn.UpsamplingBilinear2d((1, 7)),
    ]
    found = {}
    for at, module in enumerate(modules):
        x = values(lib, rng, 2, 3, 5, 6)
        found |= {f"{at}.{name}": array for name, array in results(lib, None, module(x), x).items()}
    for dims, mode in ((1, "linear"), (3, "trilinear"), (1, "nearest"), (3, "nearest-exact")):
        x = values(lib, rng, 1, 2, *(5, 4, 3)[:dims])
        output = nn.functional.interpolate(x, (7, 2, 6)[:dims], mode=mode)
        found |= {f"{dims}.{mode}.{name}": array for name, array in results(lib, None, output, x).items()}
    return found


@case
def activations(lib, rng):
    nn = lib.nn
    modules = [
        nn.ReLU(),
        nn.ReLU6(),
        nn.GELU(),
        nn.GELU("tanh"),
        nn.SiLU(),
        nn.Mish(),
        nn.Sigmoid(),
        nn.LogSigmoid(),
        nn.Tanh(),
        nn.Softmax(-1),
        nn.LogSoftmax(0),
        nn.LeakyReLU(0.2),
        nn.ELU(0.7),
        nn.Softplus(2.0),
        nn.Hardtanh(-0.5, 0.7),
        nn.Hardswish(),
    ]
    found = {}
    for at, module in enumerate(modules):
        x = values(lib, rng, 3, 5)
        found |= {f"{at}.{name}": array for name, array in results(lib, None, module(x * 2), x).items()}
    return found


@case
def shapes(lib, rng):
    nn = lib.nn
    return through(lib, rng, nn.Sequential(nn.Flatten(), nn.Linear(6, 6), nn.Unflatten(1, (3, 2))), (2, 2, 3))


def recurrent(lib, rng, module, *shapes):
    """A layer's results for an input and a state, which may have two parts, and for an input alone."""
    module = fill(lib, rng, module)
    x, *state = [values(lib, rng, *shape) for shape in shapes]
    outputs, ends = module(x, tuple(state) if len(state) > 1 else state[0])
    ends = ends if isinstance(ends, tuple) else (ends,)
    joined = lib.cat([outputs.reshape(-1), *[end.reshape(-1) for end in ends]])
    return results(lib, module, joined, x, *state) | {"alone": module(x)[0].detach().numpy()}


@case
def rnn(lib, rng):
    return recurrent(lib, rng, lib.nn.RNN(3, 4), (5, 2, 3), (1, 2, 4))


@case
def rnn_relu_in_both_directions(lib, rng):
    return recurrent(lib, rng, lib.nn.RNN(3, 4, 2, "relu", bidirectional=True), (3, 2, 3), (4, 2, 4))


@case
def gru(lib, rng):
    return recurrent(lib, rng, lib.nn.GRU(3, 4, 2), (5, 2, 3), (2, 2, 4))


@case
def gru_without_batch(lib, rng):
    return recurrent(lib, rng, lib.nn.GRU(3, 4, bias=False, batch_first=True), (5, 3), (1, 4))


@case
def lstm(lib, rng):
    module = lib.nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
    return recurrent(lib, rng, module, (2, 5, 3), (4, 2, 4), (4, 2, 4))


@case
def lstm_projected(lib, rng):
    return recurrent(lib, rng, lib.nn.LSTM(3, 4, 2, proj_size=2), (5, 2, 3), (2, 2, 2), (2, 2, 4))


@case
def packed_sequences(lib, rng):
    rnn = lib.nn.utils.rnn
    found = {}
    for module in (lib.nn.LSTM(3, 4, 2, bidirectional=True), lib.nn.GRU(3, 4)):
        module = fill(lib, rng, module)
        parts = [values(lib, rng, length, 3) for length in (2, 4, 1)]
        packed = rnn.pack_sequence(parts, enforce_sorted=False)
        state = [values(lib, rng, 4 if module.bidirectional else 1, 3, 4) for _ in module.mode[::3]]
        outputs, ends = module(packed, tuple(state) if len(state) > 1 else state[0])
        padded, lengths = rnn.pad_packed_sequence(outputs, padding_value=-1.0, total_length=5)
        ends = ends if isinstance(ends, tuple) else (ends,)
        joined = lib.cat([padded.reshape(-1), *[end.reshape(-1) for end in ends]])
        name = module.mode
        found |= {f"{name}.{key}": value for key, value in results(lib, module, joined, *parts, *state).items()}
        found |= {f"{name}.lengths": lengths.numpy(), f"{name}.batch_sizes": outputs.batch_sizes.numpy()}
        found |= {f"{name}.order": outputs.sorted_indices.numpy(), f"{name}.data": outputs.data.detach().numpy()}
        found[f"{name}.last"] = rnn.unpack_sequence(outputs)[1].detach().numpy()
    return found


@case
def cells(lib, rng):
    nn = lib.nn
    found = {}
    for module in (nn.RNNCell(3, 4), nn.RNNCell(3, 4, False, "relu"), nn.GRUCell(3, 4), nn.LSTMCell(3, 4)):
        module = fill(lib, rng, module)
        x, hidden, memory = values(lib, rng, 2, 3), values(lib, rng, 2, 4), values(lib, rng, 2, 4)
        pair = isinstance(module, nn.LSTMCell)
        output = lib.cat(module(x, (hidden, memory))) if pair else module(x, hidden)
        name = f"{type(module).__name__}.{len(found)}"
        state = (hidden, memory) if pair else (hidden,)
        found |= {f"{name}.{key}": value for key, value in results(lib, module, output, x, *state).items()}
        alone = module(x[0])
        found[f"{name}.alone"] = (alone[1] if pair else alone).detach().numpy()
    return found


@case
def attention(lib, rng):
    module = fill(lib, rng, lib.nn.MultiheadAttention(8, 2))
    query, key = values(lib, rng, 3, 2, 8), values(lib, rng, 5, 2, 8)
    padding = lib.tensor([[False] * 5, [False, False, False, True, True]])
    output, weights = module(query, key, key, key_padding_mask=padding)
    return {**results(lib, module, output, query, key), "weights": weights.detach().numpy()}


@case
def attention_causal(lib, rng):
    module = fill(lib, rng, lib.nn.MultiheadAttention(8, 4, batch_first=True, bias=False))
    x = values(lib, rng, 2, 4, 8)
    mask = lib.tensor(np.triu(np.ones((4, 4), bool), 1))
    output, weights = module(x, x, x, need_weights=False, attn_mask=mask)
    assert weights is None
    return results(lib, module, output, x)


@case
def class_losses(lib, rng):
    functional = lib.nn.functional
    target = lib.tensor([1, 0, 3, -100, 2])
    weight = lib.tensor([0.5, 1.0, 2.0, 1.5])
    found = {}
    for at, options in enumerate(
        [
            {},
            {"reduction": "sum"},
            {"reduction": "none"},
            {"weight": weight},
            {"label_smoothing": 0.1},
            {"weight": weight, "label_smoothing": 0.2},
        ]
    ):
        x = values(lib, rng, 5, 4)
        found |= {
            f"{at}.{key}": v for key, v in results(lib, None, functional.cross_entropy(x, target, **options), x).items()
        }
    x = values(lib, rng, 2, 4, 3)
    spatial = lib.tensor([[0, 3, 1], [2, 2, 0]])
    found |= {f"spatial.{key}": v for key, v in results(lib, None, lib.nn.CrossEntropyLoss()(x, spatial), x).items()}
    x = values(lib, rng, 3, 4)
    chances = lib.tensor(np.full((3, 4), 0.25, np.float32))
    found |= {f"chances.{key}": v for key, v in results(lib, None, functional.cross_entropy(x, chances), x).items()}
    x = values(lib, rng, 5, 4)
    loss = lib.nn.NLLLoss(weight)(lib.nn.functional.log_softmax(x, 1), target)
    return found | {f"nll.{key}": v for key, v in results(lib, None, loss, x).items()}


@case
def elementwise_losses(lib, rng):
    nn = lib.nn
    found = {}
    for at, module in enumerate([nn.MSELoss(), nn.L1Loss(reduction="sum"), nn.SmoothL1Loss(beta=0.5), nn.HuberLoss()]):
        x, y = values(lib, rng, 3, 4), values(lib, rng, 3, 4)
        found |= {f"{at}.{key}": v for key, v in results(lib, None, module(x, y), x, y).items()}
    x, y = values(lib, rng, 3, 4), lib.tensor(rng.random((3, 4)).astype(np.float32))
    loss = nn.BCELoss()(x.sigmoid(), y)
    found |= {f"bce.{key}": v for key, v in results(lib, None, loss, x).items()}
    x = values(lib, rng, 3, 4)
    loss = nn.BCEWithLogitsLoss(pos_weight=lib.tensor([1.0, 2.0, 0.5, 3.0]))(x, y)
    found |= {f"logits.{key}": v for key, v in results(lib, None, loss, x).items()}
    x = values(lib, rng, 3, 4)
    loss = nn.KLDivLoss(reduction="batchmean")(nn.functional.log_softmax(x, 1), y)
    return found | {f"kl.{key}": v for key, v in results(lib, None, loss, x).items()}


@case
def distances(lib, rng):
    functional = lib.nn.functional
    x, y = values(lib, rng, 3, 4), values(lib, rng, 3, 4)
    found = {f"cosine.{key}": v for key, v in results(lib, None, functional.cosine_similarity(x, y), x, y).items()}
    x = values(lib, rng, 3, 4)
    return found | {f"unit.{key}": v for key, v in results(lib, None, functional.normalize(x), x).items()}


@case
def clipping(lib, rng):
    found = {}
    for limit in (0.5, 1e3):
        params = [values(lib, rng, 3, 4), values(lib, rng, 5)]
        for param in params:
            (param * param).sum().backward()
        total = lib.nn.utils.clip_grad_norm_(params, limit)
        found |= {f"{limit}.total": total.numpy()} | {f"{limit}.{at}": p.grad.numpy() for at, p in enumerate(params)}
    (params[0] * 3).sum().backward()
    lib.nn.utils.clip_grad_value_(params, 2.0)
    return found | {f"value.{at}": p.grad.numpy() for at, p in enumerate(params)}
