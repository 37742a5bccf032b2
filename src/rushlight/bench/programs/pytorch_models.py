"""Models in PyTorch's API: the same text is run by Rushlight and, under Rushlight's name, by torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import rushlight as rl
from rushlight.bench.programs.pytorch_ops import Function, Modes
from rushlight.bench.records import Work
from rushlight.demo.model import GPT
from rushlight.demo.training import MAX_GRADIENT_NORM

F = rl.nn.functional
nn = rl.nn
Tensors = dict[str, rl.Tensor]
BETAS = (0.9, 0.95)
DECAY = 0.1


class Block(nn.Module):
    """Causal self-attention and an MLP four times as wide, each on normalized input and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[batch, length, width] in and out."""
        query, key, value = self.split(x)
        return self.add(x, F.scaled_dot_product_attention(query, key, value, is_causal=True))

    def decode(self, x: rl.Tensor, keys: rl.Tensor, values: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor, rl.Tensor]:
        """One position [batch, 1, width] after the cached ones; its own key and value too."""
        query, key, value = self.split(x)
        keys, values = rl.cat([keys, key], -2), rl.cat([values, value], -2)
        return self.add(x, F.scaled_dot_product_attention(query, keys, values)), key, value

    def split(self, x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        """Query, key and value, each [batch, heads, length, width / heads]."""
        batch, length, width = x.shape
        split = self.query_key_value(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        return split.permute(2, 0, 3, 1, 4).unbind(0)

    def add(self, x: rl.Tensor, seen: rl.Tensor) -> rl.Tensor:
        """x plus the projected attention, plus the MLP of that."""
        x = x + self.project(seen.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2; the embedding of tokens is also the last layer's weight."""

    def __init__(self, vocabulary: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        """[batch, length] of int64 to [batch, length, vocabulary]."""
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)

    def decode(self, tokens: rl.Tensor, keys: rl.Tensor, values: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor, rl.Tensor]:
        """Logits of tokens [batch, 1] after cached ones [layers, batch, heads, cached, width / heads]."""
        x = self.token(tokens) + self.position.weight[keys.shape[-2]]
        made: list[tuple[rl.Tensor, rl.Tensor]] = []
        for number, block in enumerate(self.blocks):
            x, key, value = block.decode(x, keys[number], values[number])
            made.append((key, value))
        logits = F.linear(self.norm(x), self.token.weight)
        return logits, rl.stack([key for key, _ in made]), rl.stack([value for _, value in made])

    def loss(self, windows: rl.Tensor) -> rl.Tensor:
        """Mean cross-entropy of each token of the windows [batch, length + 1] but the first."""
        logits = self(windows[:, :-1])
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1))


def make_gpt(tensors: Tensors, heads: int, gelu: str) -> GPT | GPT2:
    """A model with these weights: the demo's where the activation is exact, GPT-2 where it is approximate."""
    vocabulary, width = tensors["token.weight"].shape
    context, layers = tensors["position.weight"].shape[0], sum([name.endswith("norm1.bias") for name in tensors])
    if gelu == "tanh":
        model = GPT2(vocabulary, context, width, layers, heads)
    else:
        model = GPT(layers, heads, width, context)
    load(model, tensors)
    return model


def load(model: nn.Module, tensors: Tensors) -> None:
    """Gives a model the weights among the tensors."""
    state = model.state_dict()
    model.load_state_dict({name: tensors.get(name, value) for name, value in state.items()})


def without_gradients(function: Function) -> Function:
    """The function, recording nothing for derivatives."""

    def forward(*operands: rl.Tensor) -> object:
        with rl.no_grad():
            return function(*operands)

    return forward


def gpt_forward(modes: Modes, tensors: Tensors, heads: int, gelu: str) -> Work:
    """Logits of every token."""
    model = make_gpt(tensors, heads, gelu).eval()
    function, tokens = without_gradients(modes.frozen(model)), tensors["tokens"]
    return lambda: function(tokens)


def gpt_lengths(modes: Modes, tensors: Tensors, heads: int, gelu: str, lengths: Sequence[int], times: int) -> Work:
    """Logits of the last token of a prompt; each length runs `times` times before the next one."""
    model = make_gpt(tensors, heads, gelu).eval()
    function, tokens = without_gradients(modes.open(model)), tensors["tokens"]
    turns = itertools.cycle([tokens[:, :length].clone() for length in lengths for _ in range(times)])
    return lambda: function(next(turns))[:, -1].clone()


def gpt_decode(modes: Modes, tensors: Tensors, heads: int, gelu: str) -> Work:
    """Logits of one token after cached ones, and its own keys and values."""
    model = make_gpt(tensors, heads, gelu).eval()
    function = without_gradients(modes.frozen(model.decode))
    tokens, keys, values = tensors["tokens"], tensors["keys"], tensors["values"]
    return lambda: function(tokens, keys, values)


def gpt_step(modes: Modes, tensors: Tensors, heads: int, gelu: str, rate: float) -> Work:
    """A training step: the loss, and the norm of the gradients before they are clipped."""
    model = make_gpt(tensors, heads, gelu)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = rl.optim.AdamW(groups, lr=rate, betas=BETAS, fused=True)
    forward, update, windows = modes.part(model.loss), modes.part(optimizer.step), tensors["windows"]

    def step(windows: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        optimizer.zero_grad()
        loss = forward(windows)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        update()
        return loss.detach(), norm

    ready = modes.step(step)
    return lambda: ready(windows)


def mlp_step(modes: Modes, tensors: Tensors, rate: float) -> Work:
    """A training step: the loss."""
    hidden, inner = tensors["0.weight"].shape
    model = nn.Sequential(nn.Linear(inner, hidden), nn.ReLU(), nn.Linear(hidden, tensors["2.weight"].shape[0]))
    load(model, tensors)
    optimizer = rl.optim.SGD(model.parameters(), lr=rate)
    forward = modes.part(lambda x, targets: F.cross_entropy(model(x), targets))
    update = modes.part(optimizer.step)

    def step(x: rl.Tensor, targets: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = forward(x, targets)
        loss.backward()
        update()
        return loss.detach()

    ready, x, targets = modes.step(step), tensors["x"], tensors["targets"]
    return lambda: ready(x, targets)


class Residual(nn.Module):
    """Two convolutions, and their input added."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        short = [nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)] if stride != 1 else []
        self.downsample = nn.Sequential(*short)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """Half as high and wide where the stride is 2."""
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + self.downsample(x))


class ResNet18(nn.Module):
    """ResNet-18, with torchvision's names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Residual(64, 64, 1), Residual(64, 64, 1))
        self.layer2 = nn.Sequential(Residual(64, 128, 2), Residual(128, 128, 1))
        self.layer3 = nn.Sequential(Residual(128, 256, 2), Residual(256, 256, 1))
        self.layer4 = nn.Sequential(Residual(256, 512, 2), Residual(512, 512, 1))
        self.fc = nn.Linear(512, 1000)

    def forward(self, image: rl.Tensor) -> rl.Tensor:
        """[batch, 3, height, width] to [batch, 1000]."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet(modes: Modes, tensors: Tensors) -> Work:
    """Logits of an image."""
    model = ResNet18()
    load(model, tensors)
    function, image = without_gradients(modes.frozen(model.eval())), tensors["image"]
    return lambda: function(image)


MODELS: dict[str, Callable[..., Work]] = {
    "gpt_forward": gpt_forward,
    "gpt_lengths": gpt_lengths,
    "gpt_decode": gpt_decode,
    "gpt_step": gpt_step,
    "mlp_step": mlp_step,
    "resnet": resnet,
}
