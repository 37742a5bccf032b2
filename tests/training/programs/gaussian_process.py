"""Regression by an exact Gaussian process, whose kernel is learned by the marginal likelihood."""

import math

import rushlight as torch

nn, F = torch.nn, torch.nn.functional


class ExactGP(nn.Module):
    def __init__(self, train_x, train_y):
        super().__init__()
        self.register_buffer("train_x", train_x)
        self.register_buffer("train_y", train_y)
        self.raw_lengthscale = nn.Parameter(torch.zeros(1))
        self.raw_outputscale = nn.Parameter(torch.zeros(()))
        self.raw_noise = nn.Parameter(torch.tensor(-2.0))
        self.mean = nn.Parameter(torch.zeros(()))

    def kernel(self, a, b):
        distance = torch.cdist(a / F.softplus(self.raw_lengthscale), b / F.softplus(self.raw_lengthscale))
        return F.softplus(self.raw_outputscale) * torch.exp(-0.5 * distance**2)

    def prior(self):
        covariance = self.kernel(self.train_x, self.train_x)
        noise = F.softplus(self.raw_noise) + 1e-6
        return covariance + noise * torch.eye(len(self.train_x))

    def forward(self):
        """The negative logarithm of the marginal likelihood, by point."""
        L = torch.linalg.cholesky(self.prior())
        residual = (self.train_y - self.mean).unsqueeze(-1)
        alpha = torch.cholesky_solve(residual, L)
        fit = 0.5 * (residual * alpha).sum()
        complexity = torch.log(torch.diagonal(L)).sum()
        return (fit + complexity + 0.5 * len(residual) * math.log(2 * math.pi)) / len(residual)

    @torch.no_grad()
    def predict(self, x):
        cross = self.kernel(x, self.train_x)
        L = torch.linalg.cholesky(self.prior())
        mean = self.mean + cross @ torch.cholesky_solve((self.train_y - self.mean).unsqueeze(-1), L)
        reduced = torch.linalg.solve_triangular(L, cross.T, upper=False)
        variance = self.kernel(x, x).diagonal() - reduced.pow(2).sum(dim=0)
        return torch.distributions.Normal(mean.squeeze(-1), variance.clamp_min(1e-12).sqrt())


def train(steps=20, compiled=False):
    torch.manual_seed(2)
    torch.set_default_dtype(torch.float64)
    train_x = torch.linspace(0, 1, 40).unsqueeze(-1)
    train_y = torch.sin(train_x * (2 * math.pi)).squeeze(-1) + torch.randn(40) * math.sqrt(0.04)
    model = ExactGP(train_x, train_y)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    network = torch.compile(model) if compiled else model
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = network()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(train(steps=100)[::10])
