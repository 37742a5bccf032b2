"""Functions and modules of layers as PyTorch's text, on numbers that both libraries make: the same lines run on either.

A case is an expression of tensors `a`, `b`, ... whose shapes are given. What is compared are weighted sums of the
result and of the gradients.
"""

import math

import numpy as np

CASES = {
    "F.pixel_shuffle(a, 2)": [(1, 8, 2, 3)],
    "F.pixel_unshuffle(a, 2)": [(1, 2, 4, 6)],
    "F.channel_shuffle(a, 2)": [(2, 4, 3)],
    "F.unfold(a, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2))": [(2, 3, 5, 4)],
    "F.fold(a, (5, 4), (2, 3), dilation=(2, 1), padding=1, stride=(1, 2))": [(2, 12, 10)],
    "F.grid_sample(a, b, align_corners=False)": [(2, 3, 4, 5), (2, 3, 2, 2)],
    "F.grid_sample(a, b, 'nearest', 'border', True)": [(2, 3, 4, 5), (2, 3, 2, 2)],
    "F.grid_sample(a, 2 * b, 'bicubic', 'reflection', False)": [(2, 3, 4, 5), (2, 3, 2, 2)],
    "F.grid_sample(a, 2 * b, 'bilinear', 'reflection', True)": [(1, 2, 3, 4, 2), (1, 2, 2, 1, 3)],
    "F.affine_grid(a, (2, 3, 4, 5), align_corners=False)": [(2, 2, 3)],
    "F.affine_grid(a, (1, 3, 1, 5, 2), align_corners=True)": [(1, 3, 4)],
    "F.interpolate(a, (3, 2), mode='bilinear', antialias=True)": [(1, 2, 7, 8)],
    "F.interpolate(a, scale_factor=0.4, mode='bicubic', antialias=True)": [(1, 2, 7, 8)],
    "F.interpolate(a, (3, 9), mode='bicubic', antialias=True, align_corners=True)": [(1, 2, 7, 8)],
    "F.upsample_bilinear(a, (5, 6))": [(1, 2, 3, 4)],
    "F.cosine_similarity(a, b, dim=-1)": [(2, 3, 4), (3, 4)],
    "F.pairwise_distance(a, b, p=3.0, keepdim=True)": [(3, 4), (3, 4)],
    "F.pdist(a, p=1.0)": [(4, 3)],
    "torch.cdist(a, b)": [(2, 4, 3), (5, 3)],
    "F.bilinear(a, b, c, d)": [(2, 3), (2, 4), (5, 3, 4), (5,)],
    "F.adaptive_max_pool1d(a, 3)": [(2, 3, 7)],
    "F.adaptive_max_pool2d(a, (None, 2), return_indices=True)[0]": [(2, 5, 7)],
    "F.adaptive_max_pool3d(a, 2)": [(1, 2, 3, 4, 5)],
    "F.max_unpool2d(*F.max_pool2d_with_indices(a, 2), 2, output_size=(5, 6))": [(2, 3, 5, 6)],
    "F.lp_pool2d(abs(a), 2.5, 2, ceil_mode=True)": [(1, 2, 5, 4)],
    "F.lp_pool1d(a, math.inf, 3, 2)": [(1, 2, 7)],
    "F.local_response_norm(a, 3, alpha=0.5, k=2.0)": [(2, 5, 3, 2)],
    "F.conv_tbc(a, b, c, 1)": [(6, 2, 3), (3, 3, 4), (4,)],
    "F.prelu(a, b)": [(2, 3, 4), (3,)],
    "F.celu(a, 0.5)": [(3, 4)],
    "F.threshold(a, 0.1, -2.0)": [(3, 4)],
    "F.rrelu(a, 0.1, 0.4)": [(3, 4)],
    "F.elu_(a * 1.0, 0.7)": [(3, 4)],
    "F.hardtanh_(a * 1.0, -0.2, 0.3)": [(3, 4)],
    "F.margin_ranking_loss(a, b, s(a), 0.3)": [(6,), (6,)],
    "F.hinge_embedding_loss(a, s(a), 0.8, reduction='sum')": [(3, 4)],
    "F.cosine_embedding_loss(a, b, s(a)[:, 0], 0.1, reduction='none')": [(3, 4), (3, 4)],
    "F.multi_margin_loss(a, classes, p=2, margin=0.7, weight=abs(b).detach())": [(3, 4), (4,)],
    "F.multilabel_margin_loss(a, labels)": [(3, 4)],
    "F.soft_margin_loss(a, s(b))": [(3, 4), (3, 4)],
    "F.multilabel_soft_margin_loss(a, (b > 0).float(), abs(b).detach())": [(3, 4), (3, 4)],
    "F.triplet_margin_loss(a, b, c, 0.9, swap=True)": [(3, 4), (3, 4), (3, 4)],
    "F.triplet_margin_with_distance_loss(a, b, c, distance_function=F.cosine_similarity)": [(3, 4), (3, 4), (3, 4)],
    "F.poisson_nll_loss(a, abs(b) * 3, full=True)": [(3, 4), (3, 4)],
    "F.poisson_nll_loss(abs(a), abs(b), log_input=False, reduction='sum')": [(3, 4), (3, 4)],
    "F.gaussian_nll_loss(a, b, abs(c), full=True, eps=0.2)": [(3, 4), (3, 4), (3, 1)],
    "F.linear_cross_entropy(a, b, classes, linear_bias=c, label_smoothing=0.1)": [(3, 5), (4, 5), (4,)],
    "nn.CircularPad2d((1, 2, 0, 1))(a)": [(1, 2, 3, 4)],
    "nn.ConstantPad1d(1, 1.5)(a)": [(2, 3)],
    "nn.Softmax2d()(a)": [(3, 2, 2)],
}

MODULES = """
ConstantPad2d((1, 2, 3, 4), 0) | ZeroPad2d(1) | ReflectionPad1d(2) | ReplicationPad3d(1) | PixelShuffle(2)
PixelUnshuffle(3) | ChannelShuffle(2) | Fold((4, 5), 2) | Unfold(3, padding=1) | CosineSimilarity() | PairwiseDistance()
Bilinear(2, 3, 4) | CELU(0.5, True) | GLU() | Hardshrink() | Softshrink() | Hardsigmoid(True) | PReLU()
RReLU(inplace=True) | SELU(True) | Softmax2d() | Softmin(1) | Threshold(0.1, 20, True) | Dropout1d() | AlphaDropout(0.2)
AvgPool3d(2) | AdaptiveAvgPool3d((1, None, 2)) | AdaptiveMaxPool2d(3) | LPPool2d(1.5, 3, stride=2) | MaxUnpool2d(2)
LocalResponseNorm(2) | TripletMarginLoss() | GaussianNLLLoss() | MultiMarginLoss() | PoissonNLLLoss()
"""
MODULES = [text.strip() for text in MODULES.replace("\n", "|").split("|") if text.strip()]


def numbers(count, phase):
    """Numbers in [-1, 1] without ties."""
    return np.sin(np.arange(1, count + 1) * (0.7 + 0.11 * phase)).astype(np.float32)


def run(lib, text):
    """Return weighted sums of a case's result and of its gradients."""
    inputs = [
        lib.tensor(numbers(math.prod(shape), at).reshape(shape)).requires_grad_(True)
        for at, shape in enumerate(CASES[text])
    ]
    names = dict(zip("abcd", inputs, strict=False))
    space = {"torch": lib, "F": lib.nn.functional, "nn": lib.nn, "math": math}
    space["s"] = lambda x: lib.where(x.detach() > 0, 1.0, -1.0)
    space["classes"] = lib.tensor([1, 3, 0])
    space["labels"] = lib.tensor([[1, 3, -1, 0], [2, -1, 1, 3], [0, 1, 2, 3]])
    out = eval(text, space | names)
    weights = lib.tensor(np.cos(np.arange(out.numel())).astype(np.float32)).reshape(tuple(out.shape))
    (out * weights).sum().backward()
    return [None if x is None else [*x.shape, total(x)] for x in (out.detach(), *[x.grad for x in inputs])]


def total(x):
    array = x.numpy().astype(np.float64).reshape(-1)
    return float(np.sum(array * np.cos(np.arange(array.size) * 0.9)))
