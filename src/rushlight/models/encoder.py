"""BERT (Devlin et al. 2018) and RoBERTa (Liu et al. 2019), under the names of Hugging Face's weights."""

from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.models.folder import ModelFolder, fill
from rushlight.support.errors import fail, require

F = nn.functional
FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert")
_RENAMED = ((r"^(bert|roberta)\.", ""), (r"\.gamma$", ".weight"), (r"\.beta$", ".bias"))
_UNUSED = (r"pooler\..*", r"embeddings\.position_ids", r"cls\..*", r"lm_head\..*", r"classifier\..*")


class Embeddings(nn.Module):
    """The sum of a token's, a position's and a segment's vector, normalized."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width = folder.value("hidden_size")
        self.word_embeddings = nn.Embedding(folder.value("vocab_size"), width)
        self.position_embeddings = nn.Embedding(folder.value("max_position_embeddings"), width)
        self.token_type_embeddings = nn.Embedding(folder.value("type_vocab_size", 2), width)
        self.LayerNorm = nn.LayerNorm(width, eps=folder.value("layer_norm_eps", 1e-12))
        # RoBERTa numbers positions from the one behind its padding token's number.
        self.first = 0 if folder.model_type == "bert" else folder.value("pad_token_id", 1) + 1

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        """[batch, length] to [batch, length, width]."""
        positions = rl.arange(tokens.shape[1]) + self.first
        x = self.word_embeddings(tokens) + self.token_type_embeddings.weight[0]
        return self.LayerNorm(x + self.position_embeddings(positions))


class SelfAttention(nn.Module):
    """Queries, keys and values of one input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = [nn.Linear(width, width) for _ in range(3)]

    def forward(self, x: rl.Tensor, mask: rl.Tensor) -> rl.Tensor:
        """[batch, length, width]; `mask` [batch, 1, 1, length] is True for tokens that are seen."""
        batch, length, width = x.shape
        heads = [
            layer(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        seen = F.scaled_dot_product_attention(*heads, attn_mask=mask)
        return seen.transpose(1, 2).reshape(batch, length, width)


class Output(nn.Module):
    """A product whose result is added to a residual and normalized."""

    def __init__(self, inner: int, width: int, eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)

    def forward(self, x: rl.Tensor, residual: rl.Tensor) -> rl.Tensor:
        """[..., inner] and [..., width] to [..., width]."""
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):
    """Self-attention, then an MLP; each is added to its input and normalized."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width, inner = folder.value("hidden_size"), folder.value("intermediate_size")
        eps = folder.value("layer_norm_eps", 1e-12)
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(width, folder.value("num_attention_heads")),
                "output": Output(width, width, eps),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = Output(inner, width, eps)

    def forward(self, x: rl.Tensor, mask: rl.Tensor) -> rl.Tensor:
        """[batch, length, width] in and out."""
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Encoder(nn.Module):
    """Tokens to a vector of each."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        self.embeddings = Embeddings(folder)
        layers = [Layer(folder) for _ in range(folder.value("num_hidden_layers"))]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def forward(self, tokens: rl.Tensor, mask: rl.Tensor) -> rl.Tensor:
        """[batch, length] and a bool of the same shape, True for tokens, to [batch, length, width]."""
        x = self.embeddings(tokens)
        seen = mask[:, None, None, :]
        layers: nn.Module = self.encoder["layer"]
        for layer in layers.children():
            x = layer(x, seen)
        return x


def load_encoder(folder: ModelFolder) -> Encoder:
    """The encoder of a folder, in float32. A006 for another family or activation."""
    if folder.model_type not in FAMILIES:
        hint = f"families: {', '.join(FAMILIES)}"
        fail("A006", "embed: this family of models is not supported", model_type=folder.model_type, hint=hint)
    plain = folder.value("position_embedding_type", "absolute") == "absolute"
    require(plain and folder.value("hidden_act", "gelu") == "gelu", "A006", "embed: absolute positions and gelu")
    with rl.device("meta"):
        model = Encoder(folder)
    weights = {name: tensor.float() for name, tensor in folder.weights(*_RENAMED).items()}
    fill(model, weights, _UNUSED)
    return model.eval()
