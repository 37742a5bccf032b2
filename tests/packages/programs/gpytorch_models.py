"""Gaussian processes of gpytorch."""

import gpytorch
import torch
from case import Case, draw_weights


class ExactGP(gpytorch.models.ExactGP):
    """A process with a constant mean and a scaled kernel."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.Likelihood) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Return the prior at points."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact_gp() -> Case:
    """Regression on a sine."""
    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x) + 0.1 * torch.cos(40 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = draw_weights(ExactGP(x, y, likelihood))
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    points = torch.linspace(0, 1.2, 7)

    def outputs() -> dict[str, object]:
        prediction = likelihood(model(points))
        return {"mean": prediction.mean, "variance": prediction.variance}

    return Case(model, outputs, lambda: -marginal(model(x), y))
