"""Pieces that training scripts are drawn from: models, optimizers, kinds of steps, and what goes on beside these.

Names that pieces share: `model`, `optimizer`, `turn`, `x`, `y`, `out`, `loss`, `value` (the loss as a number) and
`seen`, to which each turn adds what `show` says.
"""

from __future__ import annotations

from rushlight.support.frozen import frozen


@frozen
class Piece:
    """Lines of a script, by where they stand: `top` beside the function, `begin` before the loop, `end` behind it.

    In each turn `before` stands in front of the forward pass, `loss` behind it, and `after` behind the step.
    """

    name: str
    top: str = ""
    begin: str = ""
    before: str = ""
    loss: str = ""
    after: str = ""
    end: str = ""
    show: tuple[str, ...] = ()


@frozen
class Step:
    """A kind of step: the lines that take one, with `{forward}`, and what stands before the loop."""

    name: str
    lines: str
    begin: str = ""
    top: str = ""


_FORWARD = "out = model(x)\nloss = (out - y).square().mean()"

MODELS = (
    Piece("mlp", begin="model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))"),
    Piece(
        "convolution",
        begin="model = nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3, padding=1), nn.ReLU(), "
        "nn.Flatten(), "
        "nn.Linear(12, 2))",
    ),
    Piece(
        "recurrent",
        top="""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(2, 4, batch_first=True)
        self.head = nn.Linear(4, 2)
        self.state = None

    def forward(self, x):
        if self.state is not None and self.state.shape[1] != len(x):
            self.state = None
        out, state = self.cell(x.view(len(x), 3, 2), self.state)
        if self.training:
            self.state = state.detach()
        return self.head(out[:, -1])
""",
        begin="model = Net()",
        show=("model.state.tolist()",),
    ),
    Piece(
        "attention",
        top="""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)
        self.norm = nn.LayerNorm(2)
        self.weights = []

    def forward(self, x):
        x = x.view(len(x), 3, 2)
        out, weights = self.attention(x, x, x)
        self.weights.append(weights.detach().mean().item())
        return self.norm(x + out).mean(1)
""",
        begin="model = Net()",
        show=("model.weights[-2:]",),
    ),
    Piece(
        "embedding",
        top="""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.used = Counter()

    def forward(self, x):
        indices = (x * 3).abs().long().clamp(0, 7)
        self.used.update(indices.flatten().tolist())
        return self.table(indices).mean(1) * self.scale
""",
        begin="model = Net()",
        show=("sorted(model.used.items())",),
    ),
    Piece("norm", begin="model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(4, 2))"),
    Piece("dropout", begin="model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.LeakyReLU(), nn.Linear(8, 2))"),
    Piece(
        "buffers",
        top="""
class Net(nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 2)
        self.register_buffer("mean", torch.zeros(6))
        self.count = 0
        self.last = None

    def forward(self, x):
        Net.calls += 1
        self.count += 1
        if self.training:
            self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        self.last = out = self.lin(x - self.mean)
        return out
""",
        begin="model = Net()",
        show=("model.count", "Net.calls", "model.mean.tolist()", "model.last.detach().sum().item()"),
    ),
    Piece(
        "shared",
        top="""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.heads = nn.ModuleDict({"a": nn.Linear(6, 2), "b": nn.Linear(6, 2)})
        self.which = "a"

    def forward(self, x):
        x = self.second(torch.tanh(self.first(x)))
        self.which = "b" if self.which == "a" else "a"
        return self.heads[self.which](x)
""",
        begin="model = Net()",
        show=("model.which",),
    ),
    Piece(
        "parametrized",
        top="""
class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).mT
""",
        begin="""
model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
nn.utils.parametrize.register_parametrization(model[0], "weight", Symmetric())
""",
        show=("model[0].weight.sum().item()",),
    ),
    Piece(
        "functional",
        top="""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 2)

    def forward(self, x):
        values = {name: value * 1.5 for name, value in self.inner.named_parameters()}
        return torch.func.functional_call(self.inner, values, (x,))
""",
        begin="model = Net()",
    ),
    Piece(
        "custom",
        top="""
class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x.tanh() * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh() ** 2) * ctx.scale, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.head = nn.Linear(6, 2)
        self.depth = 2

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            if index < self.depth:
                x = x + Squash.apply(layer(x), 0.5 + index)
        return self.head(x)
""",
        begin="model = Net()",
    ),
)

OPTIMIZERS = (
    Piece("sgd", begin="optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)"),
    Piece("adam", begin="optimizer = optim.Adam(model.parameters(), lr=0.05)"),
    Piece(
        "groups",
        begin="""
parameters = list(model.parameters())
groups = [{"params": parameters[:1], "lr": 0.01}, {"params": parameters[1:], "weight_decay": 0.1}]
optimizer = optim.AdamW(groups, lr=0.05)
""",
        show=("[group['lr'] for group in optimizer.param_groups]",),
    ),
    Piece("rmsprop", begin="optimizer = optim.RMSprop(model.parameters(), lr=0.02)"),
    Piece("adagrad", begin="optimizer = optim.Adagrad(model.parameters(), lr=0.05)"),
)

STEPS = (
    Step("plain", "optimizer.zero_grad()\n{forward}\nloss.backward()\noptimizer.step()"),
    Step("kept", "{forward}\noptimizer.zero_grad(set_to_none=False)\nloss.backward()\noptimizer.step()"),
    Step(
        "accumulated",
        "{forward}\n(loss / 2).backward()\nif turn % 2:\n    optimizer.step()\n    optimizer.zero_grad()",
    ),
    Step(
        "clipped",
        "optimizer.zero_grad()\n{forward}\nloss.backward()\n"
        "norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)\nnorms.append(round(norm.item(), 6))\n"
        "optimizer.step()\n"
        "seen.append(tuple(norms[-3:]))",
        begin="norms = []",
    ),
    Step(
        "scaled",
        "optimizer.zero_grad()\n{forward}\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
        "seen.append(scaler.get_scale())",
        begin="scaler = torch.amp.GradScaler('cpu', init_scale=8.0, growth_interval=3)",
    ),
    Step(
        "closure",
        "calls = 0\ndef closure():\n    nonlocal calls, loss, out\n    calls += 1\n    optimizer.zero_grad()\n"
        "    {forward}\n    loss.backward()\n    return loss\nout = loss = None\n"
        "def run():\n    nonlocal total\n    total += optimizer.step(closure).item()\nrun()\n"
        "seen.append((calls, total))",
        begin="total = 0.0",
    ),
    Step(
        "penalty",
        "optimizer.zero_grad()\nx = x.clone().requires_grad_()\n{forward}\n"
        "(slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)\nloss = loss + slope.square().mean()\n"
        "loss.backward()\noptimizer.step()\nseen.append(slope.detach().abs().max().item())",
    ),
    Step(
        "manual",
        "{forward}\nnames = [name for name, p in model.named_parameters() if p.requires_grad]\n"
        "grads = torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)\n"
        "with torch.no_grad():\n"
        "    for name, p, grad in zip(names, [p for p in model.parameters() if p.requires_grad], grads):\n"
        "        if grad is not None:\n            velocity[name] = velocity.get(name, 0) * 0.9 + grad\n"
        "            p -= 0.05 * velocity[name]",
        begin="velocity = {}",
    ),
    Step(
        "guarded",
        "if turn % 4 == 2:\n    x = x * float('nan')\noptimizer.zero_grad()\n{forward}\n"
        "if not torch.isfinite(loss):\n    skipped += 1\n    out = loss = torch.zeros(1, 2)\n"
        "    loss = loss.sum()\nelse:\n"
        "    loss.backward()\n    optimizer.step()\nseen.append(skipped)",
        begin="skipped = 0",
    ),
    Step(
        "handled",
        "try:\n    optimizer.zero_grad()\n    if turn % 3 == 1:\n        raise Skipped(turn)\n    {forward}\n"
        "    loss.backward()\n"
        "    optimizer.step()\nexcept Skipped as skip:\n    out = torch.zeros(1, 2)\n"
        "    loss = out.sum() + skip.args[0]\n"
        "    errors.append(str(skip))\nfinally:\n    seen.append(len(errors))",
        begin="errors = []",
        top="class Skipped(Exception):\n    pass\n",
    ),
    Step(
        "sharpness",
        "{forward}\nloss.backward()\nmoves = []\nwith torch.no_grad():\n    for p in model.parameters():\n"
        "        if p.grad is not None:\n            move = p.grad * (0.05 / (p.grad.norm() + 1e-6))\n"
        "            p.add_(move)\n"
        "            moves.append((p, move))\noptimizer.zero_grad()\n{forward}\nloss.backward()\n"
        "with torch.no_grad():\n"
        "    for p, move in moves:\n        p.sub_(move)\noptimizer.step()\noptimizer.zero_grad()",
    ),
    Step(
        "inner",
        "fast = {name: p for name, p in model.named_parameters()}\nfor _ in range(2):\n"
        "    inner = (torch.func.functional_call(model, fast, (x,)) - y).square().mean()\n"
        "    used = {name: p for name, p in fast.items() if p.requires_grad}\n"
        "    grads = torch.autograd.grad(inner, list(used.values()), create_graph=True, allow_unused=True)\n"
        "    fast = {**fast, **{name: p if grad is None else p - 0.1 * grad for (name, p), grad in "
        "zip(used.items(), grads)}}\n"
        "optimizer.zero_grad()\nout = torch.func.functional_call(model, fast, (x,))\n"
        "loss = (out - y).square().mean()\n"
        "loss.backward()\noptimizer.step()\nseen.append(inner.item())",
    ),
)
STEP_FORWARD = _FORWARD
