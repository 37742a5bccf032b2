"""Sparse gradients as PyTorch code: the same text runs on torch, for frozen values, and on Rushlight."""

import numpy as np

INDICES = [[0, 2], [2, 3]]


def table(lib, rows=4, columns=3):
    return lib.nn.Parameter(lib.arange(float(rows * columns)).reshape(rows, columns))


def weighted(lib, rows):
    """A loss that gives each element another gradient."""
    return (rows * (lib.arange(float(rows.numel())).reshape(tuple(rows.shape)) + 1)).sum()


def parts(tensor):
    """What a gradient holds, as lists: places and values of a sparse one."""
    if tensor.is_sparse:
        return [tensor._indices().tolist(), tensor._values().tolist(), list(tensor.shape), tensor.is_coalesced()]
    return tensor.tolist()


def summed(tensor):
    """What a sum of gradients holds: PyTorch adds up some of the equal places, which others it leaves."""
    return parts(tensor.coalesce() if tensor.is_sparse else tensor)


def embedding(lib, **options):
    w = table(lib)
    weighted(lib, lib.nn.functional.embedding(lib.tensor(INDICES), w, **options)).backward()
    return w


def bags(lib, mode, **options):
    w, i, o = table(lib), lib.tensor([1, 2, 2, 0, 3]), lib.tensor([0, 2, 2])
    weighted(lib, lib.nn.functional.embedding_bag(i, w, o, mode=mode, **options)).backward()
    return parts(w.grad)


def weighted_bags(lib):
    w, i, o = table(lib), lib.tensor([1, 2, 2, 0, 3]), lib.tensor([0, 2, 2])
    each = lib.tensor([1.0, 2, 3, 4, 5], requires_grad=True)
    options = {"mode": "sum", "per_sample_weights": each, "sparse": True}
    weighted(lib, lib.nn.functional.embedding_bag(i, w, o, **options)).backward()
    return [parts(w.grad), each.grad.tolist()]


def then(lib, first, second):
    """Gradients of one kind accumulated after those of another."""
    w = embedding(lib, sparse=first)
    before = w.grad
    lib.nn.functional.embedding(lib.tensor([1, 2]), w, sparse=second).sum().backward()
    return [summed(w.grad), w.grad is before]


def together(lib, other):
    w, i = table(lib), lib.tensor([1, 2])
    both = (i, True), (lib.tensor(INDICES), other)
    sum([weighted(lib, lib.nn.functional.embedding(at, w, sparse=sparse)) for at, sparse in both]).backward()
    return summed(w.grad)


def through(lib):
    """The table is computed: its gradient goes on through the operator that made it."""
    w = table(lib)
    weighted(lib, lib.nn.functional.embedding(lib.tensor(INDICES), w * 2, sparse=True)).backward()
    return parts(w.grad)


def twice(lib):
    w, x = table(lib), lib.ones(2, 2, 3, requires_grad=True)
    rows = lib.nn.functional.embedding(lib.tensor(INDICES), w, sparse=True)
    (found,) = lib.autograd.grad(weighted(lib, rows * x * x), w, create_graph=True)
    (second,) = lib.autograd.grad(found.to_dense().sum(), x)
    return [parts(found.detach()), second.tolist()]


def limited(lib, norm_type):
    w = table(lib)
    options = {"max_norm": 5.0, "norm_type": norm_type}
    rows = lib.nn.functional.embedding(lib.tensor([1, 2, 2, 3]), w, **options)
    weighted(lib, rows).backward()
    bag = lib.nn.functional.embedding_bag(lib.tensor([[0, 3]]), table(lib), **options)
    return [rows.tolist(), w.tolist(), w.grad.tolist(), bag.tolist()]


def in_place(lib):
    grad = embedding(lib, sparse=True).grad
    found = [parts(grad.mul_(2)), parts(grad.div_(4)), parts(grad.neg_())]
    grad.add_(grad.clone(), alpha=3)
    found.append(summed(grad))
    grad.copy_(grad * 2).sub_(embedding(lib, sparse=True).grad)
    found.append(summed(grad))
    return [*found, parts(grad.zero_())]


def into_dense(lib):
    grad, dense = embedding(lib, sparse=True).grad, lib.zeros(3, 4).t()
    found = [dense.add_(grad, alpha=2).tolist(), dense.sub_(grad).tolist(), (lib.ones(4, 3) + grad).tolist()]
    pairs = lib.sparse_coo_tensor(lib.tensor([[0, 1, 0], [2, 0, 2]]), lib.tensor([1.0, 2, 3]), (4, 3))
    return [*found, dense.add_(pairs).tolist()]


def merged_sum(lib):
    one, two = [embedding(lib, sparse=True).grad.coalesce() for _ in range(2)]
    return [parts(one + two), parts(one.pow(2)), parts(embedding(lib, sparse=True).grad ** 2), float(one.norm())]


def scaled_loss(lib):
    w, scaler = table(lib), lib.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = lib.optim.SGD([w], lr=0.1)
    rows = lib.nn.functional.embedding(lib.tensor(INDICES), w, sparse=True)
    scaler.scale(weighted(lib, rows)).backward()
    scaler.step(optimizer)
    scaler.update()
    return [parts(w.grad), w.tolist()]


GRADIENTS = {
    "embedding": lambda lib: parts(embedding(lib, sparse=True).grad),
    "embedding_padding": lambda lib: parts(embedding(lib, sparse=True, padding_idx=2).grad),
    "embedding_by_frequency": lambda lib: parts(embedding(lib, scale_grad_by_freq=True).grad),
    "embedding_by_frequency_padding": lambda lib: parts(embedding(lib, scale_grad_by_freq=True, padding_idx=3).grad),
    "no_rows": lambda lib: parts(_looked_up(lib, lib.zeros(0, dtype=lib.int64))),
    "one_row": lambda lib: parts(_looked_up(lib, lib.tensor(2))),
    "int32": lambda lib: parts(_looked_up(lib, lib.tensor([3, 1], dtype=lib.int32))),
    "bags_sum": lambda lib: bags(lib, "sum", sparse=True),
    "bags_mean": lambda lib: bags(lib, "mean", sparse=True),
    "bags_padding": lambda lib: bags(lib, "mean", sparse=True, padding_idx=2),
    "bags_weighted": weighted_bags,
    "sparse_then_sparse": lambda lib: then(lib, True, True),
    "sparse_then_dense": lambda lib: then(lib, True, False),
    "dense_then_sparse": lambda lib: then(lib, False, True),
    "both_sparse": lambda lib: together(lib, True),
    "sparse_and_dense": lambda lib: together(lib, False),
    "through": through,
    "twice": twice,
    "limited": lambda lib: limited(lib, 2.0),
    "limited_by_largest": lambda lib: limited(lib, float("inf")),
    "in_place": in_place,
    "into_dense": into_dense,
    "merged_sum": merged_sum,
    "scaled_loss": scaled_loss,
}


def _looked_up(lib, indices):
    w = table(lib)
    lib.nn.functional.embedding(indices, w, sparse=True).sum().backward()
    return w.grad


OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1),
    "sgd_maximize": lambda o, p: o.SGD(p, lr=0.1, maximize=True),
    "sgd_momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9),
    "sgd_nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.8, nesterov=True),
    "sgd_dampening": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.4),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.1, lr_decay=0.01),
    "adagrad_maximize": lambda o, p: o.Adagrad(p, lr=0.1, maximize=True, initial_accumulator_value=0.2),
    "sparse_adam": lambda o, p: o.SparseAdam(p, lr=0.05),
    "sparse_adam_maximize": lambda o, p: o.SparseAdam(p, lr=0.05, betas=(0.7, 0.9), eps=1e-6, maximize=True),
    "lbfgs": lambda o, p: o.LBFGS(p, lr=0.1, max_iter=4),
}


def run_optimizer(lib, name):
    """The table after each of some steps, in which other rows have gradients; and the state's tensors at the end."""
    rng = np.random.Generator(np.random.PCG64(3))
    w = table(lib, 6, 2)
    optimizer = OPTIMIZERS[name](lib.optim, [w])
    found = []
    for _ in range(6):
        at = lib.tensor(rng.integers(0, 6, 3))
        factors = lib.tensor(rng.standard_normal((3, 2)).astype(np.float32))

        def closure(at=at, factors=factors):
            optimizer.zero_grad()
            rows = lib.nn.functional.embedding(at, w, sparse=True)
            loss = (rows * rows * factors.abs() + rows * factors).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append(w.tolist())
    state = {key: value for key, value in optimizer.state[w].items() if key in ("exp_avg", "exp_avg_sq", "sum", "step")}
    return [found, {key: value.tolist() if hasattr(value, "tolist") else value for key, value in state.items()}]


REFUSING = ("Adadelta", "Adafactor", "Adam", "AdamW", "Adamax", "ASGD", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop")
