"""Optimizers and schedules as PyTorch code: the same text runs on torch, for frozen values, and on Rushlight."""

import numpy as np

STEPS = 12

OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1),
    "sgd_decay": lambda o, p: o.SGD(p, lr=0.1, weight_decay=0.05),
    "sgd_momentum": lambda o, p: o.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda o, p: o.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "sgd_dampening": lambda o, p: o.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "sgd_maximize": lambda o, p: o.SGD(p, lr=0.05, momentum=0.5, maximize=True),
    "adam": lambda o, p: o.Adam(p, lr=0.01),
    "adam_decay": lambda o, p: o.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adam_amsgrad": lambda o, p: o.Adam(p, lr=0.02, amsgrad=True, maximize=True),
    "adamw": lambda o, p: o.AdamW(p, lr=0.01),
    "adamw_amsgrad": lambda o, p: o.AdamW(p, lr=0.01, weight_decay=0.2, amsgrad=True),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.1, lr_decay=0.02, weight_decay=0.01, initial_accumulator_value=0.1),
    "rmsprop": lambda o, p: o.RMSprop(p, lr=0.01),
    "rmsprop_centered": lambda o, p: o.RMSprop(p, lr=0.01, momentum=0.9, centered=True, weight_decay=0.02),
    "groups": lambda o, p: o.AdamW([{"params": p[:1], "lr": 0.05}, {"params": p[1:], "weight_decay": 0.0}], lr=0.01),
}


def run_optimizer(lib, name):
    """Return the parameters after each step and the state after the last, by name."""
    rng = np.random.Generator(np.random.PCG64(7))
    params = [lib.tensor(rng.standard_normal(shape).astype(np.float32)).requires_grad_() for shape in ((3, 4), (5,))]
    optimizer = OPTIMIZERS[name](lib.optim, params)
    found = {}
    for step in range(STEPS):
        optimizer.zero_grad()
        for param in params:
            scale = lib.tensor(rng.standard_normal(tuple(param.shape)).astype(np.float32))
            ((param * scale) ** 2 / 2 + param * scale).sum().backward()
        optimizer.step()
        found |= {f"{step}.{at}": param.detach().numpy().copy() for at, param in enumerate(params)}
    for number, entry in optimizer.state_dict()["state"].items():
        found |= {f"state.{number}.{key}": np.float32(value) for key, value in entry.items() if value is not None}
    return found


def _groups(lib):
    params = [lib.tensor([1.0]).requires_grad_(), lib.tensor([2.0]).requires_grad_()]
    return lib.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.02}], lr=0.5, momentum=0.9)


def _sequence(s, o):
    warm = s.LinearLR(o, start_factor=0.01, total_iters=4)
    return s.SequentialLR(o, [warm, s.CosineAnnealingLR(o, T_max=10, eta_min=0.001)], milestones=[4])


def _three(s, o):
    parts = [s.ConstantLR(o, factor=0.5, total_iters=3), s.StepLR(o, 2, 0.5), s.ExponentialLR(o, 0.9)]
    return s.SequentialLR(o, parts, milestones=[3, 8])


def _chain_first(s, o):
    chain = s.ChainedScheduler([s.LinearLR(o, start_factor=0.5, total_iters=4), s.StepLR(o, 3, 0.5)])
    return s.SequentialLR(o, [chain, s.ExponentialLR(o, 0.9)], milestones=[7])


SCHEDULES = {
    "step": lambda s, o: s.StepLR(o, step_size=3, gamma=0.3),
    "multi_step": lambda s, o: s.MultiStepLR(o, milestones=[2, 5, 5, 9], gamma=0.5),
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: min((epoch + 1) / 5, 0.97**epoch)),
    "lambda_per_group": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)]),
    "exponential": lambda s, o: s.ExponentialLR(o, gamma=0.93),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=4),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, T_max=7, eta_min=1e-3),
    "cosine_short": lambda s, o: s.CosineAnnealingLR(o, T_max=3),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=6),
    "sequential": _sequence,
    "sequential_three": _three,
    "one_cycle": lambda s, o: s.OneCycleLR(o, max_lr=[0.1, 0.2], total_steps=25),
    "one_cycle_linear": lambda s, o: s.OneCycleLR(o, 0.3, epochs=5, steps_per_epoch=5, anneal_strategy="linear"),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + epoch / 100),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=9, power=1.5),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, factor=0.2, total_iters=3), s.ExponentialLR(o, 0.9)], o
    ),
    "sequential_chained": _chain_first,
    "warm_restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=1e-3),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, step_size_up=4, step_size_down=3),
    "cyclic_half": lambda s, o: s.CyclicLR(o, [0.01, 0.1], [0.2, 0.3], 3, mode="triangular2", max_momentum=0.95),
    "cyclic_range": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, mode="exp_range", gamma=0.95, cycle_momentum=False),
    "cyclic_own": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"),
    "one_cycle_three": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=24, three_phase=True, pct_start=0.25),
}

AVERAGING = {
    "swa_rate": {"swa_lr": 0.05, "anneal_epochs": 6},
    "swa_rate_linear": {"swa_lr": [0.3, 0.001], "anneal_epochs": 5, "anneal_strategy": "linear"},
    "swa_rate_at_once": {"swa_lr": 0.05, "anneal_epochs": 0},
}

METRICS = [1.0, 0.9, 0.9, 0.91, 0.9, 0.905, 0.5, 0.6, 0.6, 0.6, 0.4999, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0]
PLATEAUS = {
    "plateau": {"patience": 2, "factor": 0.5},
    "plateau_cooldown": {"patience": 1, "cooldown": 2, "min_lr": [0.01, 0.002]},
    "plateau_max": {"mode": "max", "patience": 3, "threshold": 0.1, "threshold_mode": "abs"},
}


def run_schedule(lib, name):
    """Return the groups' rates (and momenta) at each epoch, as lists of floats."""
    optimizer = _groups(lib)
    schedulers = lib.optim.lr_scheduler
    if name in PLATEAUS:
        schedule = schedulers.ReduceLROnPlateau(optimizer, **PLATEAUS[name])
    elif name in AVERAGING:
        schedule = lib.optim.swa_utils.SWALR(optimizer, **AVERAGING[name])
    else:
        schedule = SCHEDULES[name](schedulers, optimizer)
    rows = []
    for epoch in range(len(METRICS) if name in PLATEAUS else 22):
        rows.append([[group["lr"], group["momentum"]] for group in optimizer.param_groups])
        assert list(schedule.get_last_lr()) == [group["lr"] for group in optimizer.param_groups]
        optimizer.step()
        schedule.step(*([METRICS[epoch]] if name in PLATEAUS else []))
    return rows
