"""A mixture density network (Bishop, 1994) on a relation that has several values for one input."""

import math

import rushlight as torch

nn, F = torch.nn, torch.nn.functional
D = torch.distributions


class MDN(nn.Module):
    def __init__(self, n_hidden=20, n_gaussians=5):
        super().__init__()
        self.z_h = nn.Sequential(nn.Linear(1, n_hidden), nn.Tanh())
        self.z_pi = nn.Linear(n_hidden, n_gaussians)
        self.z_mu = nn.Linear(n_hidden, n_gaussians)
        self.z_sigma = nn.Linear(n_hidden, n_gaussians)

    def forward(self, x):
        z_h = self.z_h(x)
        pi = F.softmax(self.z_pi(z_h), -1)
        sigma = torch.exp(self.z_sigma(z_h))
        mu = self.z_mu(z_h)
        return D.MixtureSameFamily(D.Categorical(probs=pi), D.Normal(mu, sigma))


def train(steps=20, compiled=False, n_samples=200):
    torch.manual_seed(0)
    epsilon = torch.randn(n_samples)
    y_data = torch.linspace(-10, 10, n_samples)
    x_data = 7 * torch.sin(0.75 * y_data) + 0.5 * y_data + epsilon
    x, y = x_data.view(-1, 1) / 10, y_data / 10
    network = MDN()
    optimizer = torch.optim.NAdam(network.parameters(), lr=0.01)

    def step(x, y):
        loss = -network(x).log_prob(y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step)
    losses = [step(x, y).item() for _ in range(steps)]
    with torch.no_grad():
        drawn = network(x[:5]).sample((3,))
    assert drawn.shape == (3, 5) and all(math.isfinite(value) for value in drawn.flatten().tolist())
    return losses


if __name__ == "__main__":
    print(train(steps=500)[::50])
