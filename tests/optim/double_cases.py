"""Optimizers in float64 over 20 steps, as PyTorch code: the same text runs on torch, for frozen values, and here."""

import numpy as np

STEPS = 20

OPTIMIZERS = {
    "adadelta": lambda o, p: o.Adadelta(p, lr=0.5, rho=0.8, eps=1e-5, weight_decay=0.02),
    "adafactor": lambda o, p: o.Adafactor(p, lr=0.05, weight_decay=0.1, d=1.5),
    "adafactor_floor": lambda o, p: o.Adafactor(p, lr=0.3, eps=(1e-4, 0.5), beta2_decay=-0.5, maximize=True),
    "adamax": lambda o, p: o.Adamax(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1),
    "adamax_maximize": lambda o, p: o.Adamax(p, maximize=True),
    "asgd": lambda o, p: o.ASGD(p, lr=0.05, lambd=0.01, alpha=0.6, t0=7, weight_decay=0.05),
    "asgd_default": lambda o, p: o.ASGD(p),
    "nadam": lambda o, p: o.NAdam(p, lr=0.02, weight_decay=0.1, momentum_decay=0.01),
    "nadam_decoupled": lambda o, p: o.NAdam(p, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda o, p: o.RAdam(p, lr=0.02, weight_decay=0.1),
    "radam_decoupled": lambda o, p: o.RAdam(p, betas=(0.8, 0.5), weight_decay=0.1, decoupled_weight_decay=True),
    "radam_late": lambda o, p: o.RAdam(p, lr=0.05, betas=(0.7, 0.9)),
    "rprop": lambda o, p: o.Rprop(p, lr=0.02),
    "rprop_bounds": lambda o, p: o.Rprop(p, lr=0.02, etas=(0.6, 1.5), step_sizes=(0.01, 0.05), maximize=True),
    "muon": lambda o, p: o.Muon(p[:1], lr=0.02, weight_decay=0.1),
    "muon_tall": lambda o, p: o.Muon([p[0].detach().mT.clone().requires_grad_()], lr=0.02, nesterov=False),
    "muon_adamw": lambda o, p: o.Muon(p[:1], lr=0.02, adjust_lr_fn="match_rms_adamw"),
}

SEARCHES = {
    "lbfgs": lambda o, p: o.LBFGS(p, lr=0.1, max_iter=6, history_size=4),
    "lbfgs_wolfe": lambda o, p: o.LBFGS(p, max_iter=7, history_size=5, line_search_fn="strong_wolfe"),
    "lbfgs_far": lambda o, p: o.LBFGS(p, lr=40.0, max_iter=9, line_search_fn="strong_wolfe"),
    "lbfgs_near": lambda o, p: o.LBFGS(p, lr=1e-3, max_iter=9, max_eval=40, line_search_fn="strong_wolfe"),
}


def run_optimizer(lib, name):
    """Return parameters and state after all steps, by name."""
    rng = np.random.Generator(np.random.PCG64(11))
    given = [lib.tensor(rng.standard_normal(shape)).requires_grad_() for shape in ((3, 4), (5,), ())]
    optimizer = OPTIMIZERS[name](lib.optim, given)
    params = optimizer.param_groups[0]["params"]
    for _ in range(STEPS):
        optimizer.zero_grad()
        for param in params:
            scale = lib.tensor(rng.standard_normal(tuple(param.shape)))
            ((param * scale) ** 2 / 2 + param * scale).sum().backward()
        optimizer.step()
    return _arrays(optimizer, params)


def run_search(lib, name):
    """Return parameters, losses and counts of a search for the minimum of Rosenbrock's function."""
    x, y = lib.tensor([-1.5, 0.3]).requires_grad_(), lib.tensor([[2.0], [-0.7]]).requires_grad_()
    optimizer = SEARCHES[name](lib.optim, [x, y])

    def closure():
        optimizer.zero_grad()
        loss = ((1 - x) ** 2 + 20 * (y.reshape(2) - x * x) ** 2).sum()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(3)]
    state = optimizer.state_dict()["state"][0]
    counts = {key: state[key] for key in ("func_evals", "n_iter")}
    return {"losses": losses, **counts, "x": x.detach().tolist(), "y": y.detach().tolist()}


def _arrays(optimizer, params):
    found = {f"param.{at}": param.detach().tolist() for at, param in enumerate(params)}
    for number, entry in optimizer.state_dict()["state"].items():
        for key, value in entry.items():
            found[f"state.{number}.{key}"] = value.tolist() if hasattr(value, "tolist") else value
    return found
