"""Training that needs gradients of gradients, as written for PyTorch: the same text runs on torch and on Rushlight.

Numbers are drawn by numpy; functions that are differentiated may be `compiled`. Each function returns the losses of its
steps, in float64.
"""

import numpy as np

STEPS = 20


def maml(torch, compiled=lambda function: function):
    """Learn weights from which a gradient step fits a sine wave: the outer step differentiates the inner one."""
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return torch.tensor(rng.normal(size=shape) * 0.5, requires_grad=True)

    weights = [drawn(1, 16), drawn(16), drawn(16, 16), drawn(16), drawn(16, 1), drawn(1)]
    optimizer = torch.optim.Adam(weights, lr=0.02)

    def loss_of(values, x, y):
        hidden = torch.tanh(x @ values[0] + values[1])
        hidden = torch.tanh(hidden @ values[2] + values[3])
        return ((hidden @ values[4] + values[5] - y) ** 2).mean()

    loss_of = compiled(loss_of)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        outer = 0.0
        for _ in range(3):
            amplitude, phase = rng.uniform(0.5, 2.0), rng.uniform(0, np.pi)
            x = torch.tensor(rng.uniform(-3, 3, (20, 1)))
            y = amplitude * torch.sin(x + phase)
            gradients = torch.autograd.grad(loss_of(weights, x[:10], y[:10]), weights, create_graph=True)
            fitted = [weight - 0.05 * gradient for weight, gradient in zip(weights, gradients, strict=True)]
            outer = outer + loss_of(fitted, x[10:], y[10:])
        outer.backward()
        optimizer.step()
        losses.append(outer.item())
    return losses


def wgan_gp(torch, compiled=lambda function: function):
    """Wasserstein GAN whose critic is penalised for gradients that are not of length 1."""
    rng = np.random.default_rng(1)
    nn = torch.nn
    generator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2)).double()
    critic = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    with torch.no_grad():
        for parameter in (*generator.parameters(), *critic.parameters()):
            parameter.copy_(torch.tensor(rng.normal(size=tuple(parameter.shape)) * 0.4))
    of_generator = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.5, 0.9))
    generator, critic = compiled(generator), compiled(critic)
    losses = []
    for _ in range(STEPS):
        real = torch.tensor(rng.normal(size=(32, 2)) @ np.array([[1.0, 0.5], [0.0, 0.3]]) + 2.0)
        fake = generator(torch.tensor(rng.normal(size=(32, 2)))).detach()
        share = torch.tensor(rng.uniform(size=(32, 1)))
        between = (share * real + (1 - share) * fake).requires_grad_()
        slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        cost = -critic(generator(torch.tensor(rng.normal(size=(32, 2))))).mean()
        of_generator.zero_grad()
        cost.backward()
        of_generator.step()
        losses.append(loss.item() + cost.item())
    return losses


def physics_informed(torch, compiled=lambda function: function):
    """Solve u'' = -pi^2 sin(pi x) by a network: the loss has its second derivative."""
    rng = np.random.default_rng(2)

    def drawn(*shape):
        return torch.tensor(rng.normal(size=shape) * 0.7, requires_grad=True)

    weights = [drawn(1, 12), drawn(12), drawn(12, 12), drawn(12), drawn(12, 1), drawn(1)]
    optimizer = torch.optim.Adam(weights, lr=0.01)

    def solution(values, x):
        hidden = torch.tanh(x @ values[0] + values[1])
        hidden = torch.tanh(hidden @ values[2] + values[3])
        return hidden @ values[4] + values[5]

    solution = compiled(solution)
    losses = []
    for _ in range(STEPS):
        x = torch.tensor(rng.uniform(-1, 1, (16, 1)), requires_grad=True)
        slope = torch.autograd.grad(solution(weights, x).sum(), x, create_graph=True)[0]
        curvature = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
        residual = curvature + np.pi**2 * torch.sin(np.pi * x)
        edges = solution(weights, torch.tensor([[-1.0], [1.0]], dtype=torch.float64))
        loss = (residual**2).mean() + (edges**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


PROGRAMS = {"maml": maml, "wgan_gp": wgan_gp, "physics_informed": physics_informed}
