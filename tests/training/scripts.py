"""Small programs as people write them for PyTorch; with PyTorch only the import lines differ.

Each takes `compiled`, which makes its model (`torch.compile`, or nothing), and returns the numbers that it would print.
"""

import copy

import numpy as np

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, Dataset


def draw(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def initialize(model, seed=0):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for param in model.parameters():
            param.copy_(0.2 * draw(rng, *param.shape))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d((2, 2)),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(torch.flatten(self.features(x), 1))


def convolutions(compiled):
    model = ConvNet()
    initialize(model)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    network = compiled(model)
    rng = np.random.default_rng(1)
    losses = []
    for at in range(6):
        images, labels = draw(rng, 6 + at % 2, 1, 8, 8), torch.from_numpy(rng.integers(0, 10, 6 + at % 2))
        optimizer.zero_grad()
        loss = criterion(network(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        total = network(torch.ones(3, 1, 8, 8)).sum().item()
    norm = model.features[1]
    return [*losses, total, norm.running_mean.sum().item(), norm.running_var.sum().item()]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = [part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in (q, k, v)]
        scores = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
        weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        x = x + self.proj((weights @ v).transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self, characters, width=16, context=12):
        super().__init__()
        self.token = nn.Embedding(characters, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets=None):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def characters(compiled):
    text = "hello world, this is a tiny text for a tiny model. " * 4
    numbers = {character: at for at, character in enumerate(sorted(set(text)))}
    data = torch.tensor([numbers[character] for character in text])
    model = CharModel(len(numbers))
    initialize(model)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    network = compiled(model)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(5):
        starts = rng.integers(0, len(text) - 13, 4).tolist()
        inputs = torch.stack([data[start : start + 12] for start in starts])
        targets = torch.stack([data[start + 1 : start + 13] for start in starts])
        _, loss = network(inputs, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        found.append(loss.item())
    model.eval()
    tokens = torch.zeros((1, 1), dtype=torch.long)
    with torch.no_grad():
        for _ in range(6):
            logits, _ = network(tokens[:, -12:])
            tokens = torch.cat((tokens, torch.argmax(logits[:, -1, :], dim=-1, keepdim=True)), dim=1)
    return [*found, *tokens[0].tolist()]


def accumulation(compiled):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    initialize(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    network = compiled(model)
    rng = np.random.default_rng(0)
    found = []
    for at in range(8):
        x = draw(rng, 5, 4)
        loss = F.mse_loss(network(x).squeeze(-1), x.sum(1)) / 4
        loss.backward()
        found.append(loss.item())
        if (at + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    for frozen in (True, False):  # without, and with, gradients of the first layer
        for param in model[0].parameters():
            param.requires_grad_(not frozen)
        network(x).pow(2).mean().backward()
        found.append(0.0 if model[0].weight.grad is None else model[0].weight.grad.norm().item())
        found.append(model[2].weight.grad.norm().item())
    return found


def checkpoint(compiled):
    def make():
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.Linear(6, 3))
        initialize(model)
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        return model, compiled(model), optimizer, optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(network, optimizer, scheduler, x):
        loss = F.cross_entropy(network(x), torch.tensor([0, 1, 2, 0, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    rng = np.random.default_rng(0)
    model, *first = make()
    found = [step(*first, draw(rng, 5, 4)) for _ in range(3)]
    saved = copy.deepcopy([model.state_dict(), first[1].state_dict(), first[2].state_dict()])
    again, *second = make()
    for part, state in zip((again, *second[1:]), saved, strict=True):
        part.load_state_dict(state)
    x = draw(rng, 5, 4)
    both = [step(*first, x), step(*second, x)]
    assert both[0] == both[1]
    return [*found, *both, second[2].get_last_lr()[0], len(saved[0])]


class Points(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.x, self.y = rng.standard_normal((23, 4)).astype(np.float32), rng.integers(0, 3, 23)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        return torch.from_numpy(self.x[at]), int(self.y[at])


def loader(compiled):
    loader = DataLoader(Points(), batch_size=5)
    model = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.1), nn.Linear(16, 3))
    initialize(model)
    optimizer = optim.RMSprop(model.parameters(), lr=0.01)
    network = compiled(model)
    found = []
    for _ in range(2):
        total, correct = 0.0, 0
        for x, y in loader:
            optimizer.zero_grad()
            scores = network(x)
            loss = F.nll_loss(F.log_softmax(scores, dim=1), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * x.size(0)
            correct += (scores.argmax(1) == y).sum().item()
        found += [total / 23, correct / 23]
    return found


def adversaries(compiled):
    maker = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    judge = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    initialize(maker)
    initialize(judge, seed=1)
    make, tell = compiled(maker), compiled(judge)
    steps = [optim.Adam(model.parameters(), lr=1e-2, betas=(0.5, 0.999)) for model in (maker, judge)]
    criterion = nn.BCEWithLogitsLoss()
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4):
        real, fake = draw(rng, 6, 2), make(draw(rng, 6, 2))
        steps[1].zero_grad()
        loss = criterion(tell(real), torch.ones(6, 1)) + criterion(tell(fake.detach()), torch.zeros(6, 1))
        loss.backward()
        steps[1].step()
        steps[0].zero_grad()
        other = criterion(tell(fake), torch.ones(6, 1))
        other.backward()
        steps[0].step()
        found += [loss.item(), other.item()]
    return found


def by_hand(compiled):
    rng = np.random.default_rng(0)
    x = draw(rng, 20, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3
    weight, bias = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    loss_of = compiled(lambda x, y: ((x @ weight + bias - y) ** 2).mean())
    found = []
    for _ in range(8):
        loss = loss_of(x, y)
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            bias -= 0.1 * bias.grad
        weight.grad.zero_()
        bias.grad = None
        found.append(loss.item())
    return [*found, *weight.tolist(), *bias.tolist()]


SCRIPTS = (convolutions, characters, accumulation, checkpoint, loader, adversaries, by_hand)
