"""Activations and multi-head attention as modules."""

from __future__ import annotations

from rushlight.eager.creation import empty, full
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional, init
from rushlight.nn.functional.multi_head import each_once, multi_head_attention_forward
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require, warn

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class InplaceActivation(Module):
    """A module with the one option to overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the option where it is set."""
        return "inplace=True" if self.inplace else ""


class ReLU(InplaceActivation):
    """The larger of each element and 0."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.relu(input, self.inplace)


class ReLU6(InplaceActivation):
    """Each element held between 0 and 6."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.relu6(input, self.inplace)


class SiLU(InplaceActivation):
    """`x * sigmoid(x)`, also called swish."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.silu(input, self.inplace)


class Mish(InplaceActivation):
    """`x * tanh(softplus(x))`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.mish(input, self.inplace)


class Hardswish(InplaceActivation):
    """`x * relu6(x + 3) / 6`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardswish(input, self.inplace)


class LeakyReLU(Module):
    """x where positive, else `negative_slope * x`."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x where positive, else `alpha * (exp(x) - 1)`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """Each element held between two bounds."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None or max_value is not None:
            hint = "pass min_val and max_val"
            warn("A009", "nn.Hardtanh: min_value and max_value are deprecated", key="Hardtanh", hint=hint)
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        require(min_val < max_val, "A002", "Hardtanh: max_val must be larger than min_val")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """`x * Phi(x)` with the normal distribution's Phi, which "tanh" approximates.

    Source: Hendrycks and Gimpel 2016.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.sigmoid(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.logsigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.tanh(input)


class Softmax(Module):
    """Exponentials over their sum along a dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the logarithms of probabilities."""
        return functional.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class SELU(InplaceActivation):
    """The scaled elu that keeps mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.selu(input, self.inplace)


class Hardsigmoid(InplaceActivation):
    """`relu6(x + 3) / 6`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch prints it."""
        return ""


class CELU(Module):
    """x where positive, else `alpha * (exp(x / alpha) - 1)`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """The first half of a dim times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class Hardshrink(Module):
    """x, or 0 within `lambd` of 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the bound."""
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved towards 0 by `lambd`, or 0 within `lambd` of 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the bound."""
        return f"{self.lambd}"


class PReLU(Module):
    """x where positive, else x times a parameter: one for all channels, or one for each."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: object = None, dtype: object = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the slopes to their first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """x where positive, else x times a slope that is drawn while training."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        require(lower <= upper, "A002", "RReLU: lower is at most upper", lower=lower, upper=upper)
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the range of slopes."""
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """x above a threshold, else a value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the threshold and the value."""
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class Softmax2d(Module):
    """Softmax over the channels of (n, c, h, w) or (c, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities."""
        require(input.ndim in (3, 4), "A002", "Softmax2d: the input has 3 or 4 dims", input=input)
        return functional.softmax(input, -3)


class Softmin(Module):
    """The softmax of -x."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities."""
        return functional.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class Softsign(Module):
    """`x / (1 + |x|)`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.softsign(input)


class Tanhshrink(Module):
    """`x - tanh(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.tanhshrink(input)


class MultiheadAttention(Module):
    """Attention of several heads, each on its share of the embedding.

    Inputs are (length, batch, embedding), or (batch, length, embedding) when `batch_first`, or without a batch. Masks
    are True, or -inf, where attention is *not* allowed. `add_bias_kv` learns one more key and value, `add_zero_attn`
    adds one of zeros.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        positive = embed_dim > 0 and num_heads > 0
        require(positive, "A002", f"embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads}")
        require(embed_dim % num_heads == 0, "A002", "embed_dim must be divisible by num_heads")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        together = self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if together else (embed_dim, embed_dim),
            "k_proj_weight": None if together else (embed_dim, self.kdim),
            "v_proj_weight": None if together else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if together else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(
                name, None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            )
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for name in ("bias_k", "bias_v"):
            if self._parameters[name] is not None:
                init.xavier_normal_(self._parameters[name])

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attended values, and the attention weights (of all heads, or their mean) or None."""
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = each_once(lambda one: one.transpose(0, 1), query, key, value)
        output, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if turned else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return one mask for both, and its kind: 0 of queries and keys, 1 of padding, 2 of both, None without one."""
        if attn_mask is None and key_padding_mask is None:
            return None, None
        if attn_mask is None or key_padding_mask is None:
            return (key_padding_mask, 1) if attn_mask is None else (attn_mask, 0)
        batch, length = key_padding_mask.shape
        by_query = attn_mask if attn_mask.ndim == 3 else attn_mask.unsqueeze(0)
        shape = (batch, self.num_heads, -1, length)
        by_query = by_query.view(shape) if attn_mask.ndim == 3 else by_query.unsqueeze(0).expand(shape)
        padding = key_padding_mask.view(batch, 1, 1, length).expand(batch, self.num_heads, -1, -1)
        return by_query + padding, 2
