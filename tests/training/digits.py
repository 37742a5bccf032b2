"""A PyTorch script: a small network on scikit-learn's handwritten digits. With PyTorch only the import lines differ."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 128)
        self.norm = nn.BatchNorm1d(128)
        self.deeper = nn.Linear(128, 64)
        self.classes = nn.Linear(64, 10)

    def forward(self, pixels):
        x = F.relu(self.norm(self.hidden(pixels)))
        x = F.gelu(self.deeper(x))
        return self.classes(x)


def load_data():
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    return train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)


def initialize(model, seed=0):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for layer in (model.hidden, model.deeper, model.classes):
            spread = (2 / layer.in_features) ** 0.5
            layer.weight.copy_(torch.from_numpy(rng.normal(0, spread, tuple(layer.weight.shape)).astype(np.float32)))
            layer.bias.zero_()


def batches(images, labels, steps, size=64, seed=1):
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(images))
        for start in range(0, len(order), size):
            if steps == 0:
                return
            steps -= 1
            chosen = order[start : start + size]
            yield torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen])


def train(images, labels, steps, compile_step=False, compile_model=False):
    """Return the losses, and the trained network."""
    model = MLP()
    initialize(model)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=steps)
    network = torch.compile(model) if compile_step or compile_model else model

    def step(pixels, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(pixels), targets)
        loss.backward()
        optimizer.step()
        return loss

    if compile_step:
        step = torch.compile(step)
    losses = []
    for pixels, targets in batches(images, labels, steps):
        losses.append(step(pixels, targets).item())
        scheduler.step()
    return losses, network


def accuracy(network, images, labels):
    """Return the part of the images that are recognised."""
    network.eval()
    with torch.no_grad():
        found = network(torch.from_numpy(images)).argmax(dim=1)
    return (found == torch.from_numpy(labels)).float().mean().item()


if __name__ == "__main__":
    train_images, test_images, train_labels, test_labels = load_data()
    losses, network = train(train_images, train_labels, steps=200)
    recognised = accuracy(network, test_images, test_labels)
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}, {recognised:.1%} of the test images recognised")
