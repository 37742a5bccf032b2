"""Collections against dense one-hot products in float64: forward, backward and ten steps of each optimizer."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    FusedEmbeddingBagCollection,
    FusedEmbeddingCollection,
    KeyedJaggedTensor,
    PoolingType,
)
from rushlight.recsys import optim as rules

BATCH = 5


def tables(pooling=PoolingType.SUM, dims=(8, 8, 4)):
    return [
        EmbeddingBagConfig(11, dims[0], "t0", feature_names=["a", "b"], pooling=pooling),
        EmbeddingBagConfig(7, dims[1], "t1", feature_names=["c"], pooling=pooling),
        EmbeddingBagConfig(5, dims[2], "t2", feature_names=["d"], pooling=PoolingType.SUM),
    ]


def batch(seed: int, weighted=False, size=BATCH, keys="dabc") -> KeyedJaggedTensor:
    """Ids of four features, with empty rows and repeated ids."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, len(keys) * size)
    limits = np.repeat([{"a": 11, "b": 11, "c": 7, "d": 5}[key] for key in keys], size)
    ids = np.concatenate([rng.integers(0, limit, count) for limit, count in zip(limits, lengths, strict=True)] or [[]])
    weights = rl.tensor(rng.standard_normal(len(ids)).astype(np.float32)) if weighted else None
    return KeyedJaggedTensor(list(keys), rl.tensor(ids.astype(np.int64)), weights, rl.tensor(lengths))


def one_hot(features: KeyedJaggedTensor, key: str, rows: int, mean: bool) -> np.ndarray:
    """The matrix of float64 that takes a table to the pooled rows of a feature."""
    jagged = features[key]
    parts = jagged.to_dense()
    weights = jagged.to_dense_weights() if features.weights_or_none() is not None else [None] * len(parts)
    matrix = np.zeros((len(parts), rows))
    for bag, (ids, own) in enumerate(zip(parts, weights, strict=True)):
        scale = np.ones(len(ids)) if own is None else own.detach().numpy().astype(np.float64)
        np.add.at(matrix[bag], ids.numpy(), scale / (max(len(ids), 1) if mean else 1))
    return matrix


def matrices(collection, features):
    for table in collection.embedding_bag_configs():
        for feature in table.feature_names:
            mean = table.pooling is PoolingType.MEAN
            yield table.name, feature, one_hot(features, feature, table.num_embeddings, mean)


def weights_of(collection) -> dict[str, np.ndarray]:
    return {
        table.name: collection.embedding_bags[table.name].weight.detach().numpy().astype(np.float64)
        for table in collection.embedding_bag_configs()
    }


CASES = {
    "sum": (PoolingType.SUM, False),
    "mean": (PoolingType.MEAN, False),
    "weighted": (PoolingType.SUM, True),
}


@pytest.mark.row("9.1")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", list(CASES))
def test_pooled_rows_and_gradients_are_those_of_dense_products(case: str, compiled: bool):
    pooling, weighted = CASES[case]
    rl.manual_seed(0)
    collection = EmbeddingBagCollection(tables(pooling), is_weighted=weighted)
    call = rl.compile(collection) if compiled else collection
    for seed, size in ((0, BATCH), (1, 1), (2, 9)):
        features = batch(seed, weighted, size)
        pooled = call(features)
        assert pooled.keys() == ["a", "b", "c", "d"]
        assert pooled.length_per_key() == [8, 8, 8, 4]
        weights, direction = weights_of(collection), np.cos(np.arange(size * 28)).reshape(size, 28)
        collection.zero_grad()
        (pooled.values() * rl.tensor(direction.astype(np.float32))).sum().backward()
        gradients = {name: np.zeros_like(weight) for name, weight in weights.items()}
        first = 0
        for name, feature, matrix in matrices(collection, features):
            np.testing.assert_allclose(pooled[feature].detach().numpy(), matrix @ weights[name], atol=1e-6)
            dim = weights[name].shape[1]
            gradients[name] += matrix.T @ direction[:, first : first + dim]
            first += dim
        for name, gradient in gradients.items():
            np.testing.assert_allclose(collection.embedding_bags[name].weight.grad.numpy(), gradient, atol=1e-5)


def dense_step(rule, weight, gradient, states, step, touched):
    """The update of the rows that a batch names, in float64, written plainly."""
    w, g = weight[touched], gradient[touched]
    kind = type(rule).__name__
    if kind in ("SGD", "Adagrad", "RowWiseAdagrad"):
        g = g + rule.weight_decay * w
    if kind == "SGD":
        weight[touched] = w - rule.lr * g
        return
    if kind in ("Adagrad", "RowWiseAdagrad"):
        squares = g * g if kind == "Adagrad" else (g * g).mean(1)
        states.setdefault("m", np.zeros((len(weight), *squares.shape[1:])))[touched] += squares
        root = np.sqrt(states["m"][touched]) + rule.eps
        weight[touched] = w - rule.lr * g / (root if kind == "Adagrad" else root[:, None])
        return
    rowwise = kind == "PartialRowWiseAdam"
    first = states.setdefault("m1", np.zeros(weight.shape))
    second = states.setdefault("m2", np.zeros(len(weight) if rowwise else weight.shape))
    first[touched] = rule.beta1 * first[touched] + (1 - rule.beta1) * g
    squares = (g * g).mean(1) if rowwise else g * g
    second[touched] = rule.beta2 * second[touched] + (1 - rule.beta2) * squares
    root = np.sqrt(second[touched] / (1 - rule.beta2**step)) + rule.eps
    direction = first[touched] / (1 - rule.beta1**step) / (root[:, None] if rowwise else root) + rule.weight_decay * w
    ratio = 1.0
    if kind == "LAMB":
        own, length = np.linalg.norm(w, axis=1), np.linalg.norm(direction, axis=1)
        ratio = np.where((own > 0) & (length > 0), own / np.maximum(length, 1e-300), 1.0)[:, None]
    weight[touched] = w - rule.lr * ratio * direction


RULES = {
    "sgd": (rules.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "adagrad": (rules.Adagrad, {"lr": 0.1}),
    "rowwise_adagrad": (rules.RowWiseAdagrad, {"lr": 0.1, "weight_decay": 0.01}),
    "adam": (rules.Adam, {"lr": 0.05, "weight_decay": 0.01}),
    "rowwise_adam": (rules.PartialRowWiseAdam, {"lr": 0.05}),
    "lamb": (rules.LAMB, {"lr": 0.05, "weight_decay": 0.01}),
}


@pytest.mark.row("9.1")
@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("rule", list(RULES))
def test_ten_fused_steps_are_those_of_dense_gradients(rule: str, case: str):
    pooling, weighted = CASES[case]
    kind, numbers = RULES[rule]
    rl.manual_seed(0)
    collection = FusedEmbeddingBagCollection(tables(pooling), kind, numbers, is_weighted=weighted)
    weights, states = weights_of(collection), {}
    # Tables of one size share a group, whose steps count the batches that name one of its rows.
    for step in range(10):
        features = batch(step, weighted)
        pooled = collection(features)
        direction = np.cos(np.arange(BATCH * 28) + step).reshape(BATCH, 28)
        (pooled.values() * rl.tensor(direction.astype(np.float32))).sum().backward()
        gradients = {name: np.zeros_like(weight) for name, weight in weights.items()}
        first = 0
        for name, _, matrix in matrices(collection, features):
            dim = weights[name].shape[1]
            gradients[name] += matrix.T @ direction[:, first : first + dim]
            first += dim
        for name, weight in weights.items():
            own = next(table.feature_names for table in collection.embedding_bag_configs() if table.name == name)
            touched = np.unique(np.concatenate([features[key].values().numpy() for key in own]))
            dense_step(kind(**numbers), weight, gradients[name], states.setdefault(name, {}), step + 1, touched)
    for name, weight in weights_of(collection).items():
        np.testing.assert_allclose(weight, weights[name], rtol=1e-4, atol=2e-5)


def test_fused_steps_have_one_result_for_any_number_of_threads():
    found = []
    for threads in (1, 2):
        rl.set_num_threads(threads)
        rl.manual_seed(0)
        collection = FusedEmbeddingBagCollection(tables(), rules.RowWiseAdagrad, {"lr": 0.1})
        for step in range(3):
            collection(batch(step, size=400)).values().sin().sum().backward()
        found.append({name: value.numpy().copy() for name, value in collection.state_dict().items()})
    rl.set_num_threads(2)
    assert list(found[0]) == [f"embedding_bags.t{place}.weight" for place in range(3)]
    for name, value in found[0].items():
        np.testing.assert_array_equal(value.view(np.int32), found[1][name].view(np.int32))


def test_gradients_of_weights_pass_a_fused_collection():
    rl.manual_seed(0)
    plain = EmbeddingBagCollection(tables(), is_weighted=True)
    fused = FusedEmbeddingBagCollection(tables(), rules.SGD, {"lr": 0.0}, is_weighted=True)
    fused.load_state_dict(plain.state_dict())
    found = []
    for collection in (plain, fused):
        features = batch(0, weighted=True)
        features.weights().requires_grad_()
        collection(features).values().sin().sum().backward()
        found.append(features.weights().grad.numpy())
    np.testing.assert_allclose(*found, atol=1e-6)


def test_batches_of_several_sizes_are_expanded():
    collection = EmbeddingBagCollection([EmbeddingBagConfig(5, 2, "t", feature_names=["a", "b"])])
    names = ["a", "b"]
    rows = rl.tensor([[0, 0, 1], [0, 0, 0]])
    given = KeyedJaggedTensor(
        names,
        rl.tensor([1, 2, 3, 4]),
        lengths=rl.tensor([2, 1, 1]),
        stride_per_key_per_rank=[[2], [1]],
        inverse_indices=(names, rows),
    )
    whole = KeyedJaggedTensor(names, rl.tensor([1, 2, 1, 2, 3, 4, 4, 4]), lengths=rl.tensor([2, 2, 1, 1, 1, 1]))
    np.testing.assert_array_equal(
        collection(given).values().detach().numpy(), collection(whole).values().detach().numpy()
    )


def test_a_feature_of_two_tables_has_a_result_from_each():
    collection = EmbeddingBagCollection(
        [EmbeddingBagConfig(5, 2, name, feature_names=["a"]) for name in ("t", "u")],
    )
    features = KeyedJaggedTensor(["a"], rl.tensor([1, 2]), lengths=rl.tensor([2, 0]))
    pooled = collection(features)
    assert pooled.keys() == ["a@t", "a@u"]
    expected = collection.embedding_bags["u"].weight[1:3].sum(0)
    np.testing.assert_allclose(pooled["a@u"][0].detach().numpy(), expected.detach().numpy(), atol=1e-7)


def test_rows_of_sequences_and_their_steps():
    rl.manual_seed(0)
    configs = [EmbeddingConfig(9, 4, "t", feature_names=["a", "b"]), EmbeddingConfig(6, 4, "u", feature_names=["c"])]
    plain, fused = EmbeddingCollection(configs), FusedEmbeddingCollection(configs, rules.SGD, {"lr": 0.5})
    fused.load_state_dict(plain.state_dict())
    features = KeyedJaggedTensor(["c", "a", "b"], rl.tensor([5, 8, 8, 0, 1]), lengths=rl.tensor([1, 0, 2, 0, 1, 1]))
    optimizer = rl.optim.SGD(plain.parameters(), lr=0.5)
    for collection in (plain, fused):
        rows = collection(features)
        assert [part.tolist() for part in rows["a"].lengths().split(1)] == [[2], [0]]
        np.testing.assert_array_equal(
            rows["a"].values().detach().numpy(), collection.embeddings["t"].weight.detach()[rl.tensor([8, 8])].numpy()
        )
        sum([part.values().sin().sum() for part in rows.values()]).backward()
    optimizer.step()
    for name, value in plain.state_dict().items():
        np.testing.assert_allclose(fused.state_dict()[name].numpy(), value.numpy(), atol=1e-6)


def test_half_precision_tables_are_updated_in_float32():
    configs = [EmbeddingBagConfig(9, 4, "t", data_type=DataType.BF16, feature_names=["a"])]
    collection = FusedEmbeddingBagCollection(configs, rules.Adam, {"lr": 0.5})
    before = collection.embedding_bags["t"].weight.clone()
    features = KeyedJaggedTensor(["a"], rl.tensor([1, 1]), lengths=rl.tensor([2]))
    collection(features).values().float().sum().backward()
    changed = (collection.embedding_bags["t"].weight != before).any(1).tolist()
    assert changed == [False, True, *[False] * 7]
    assert collection.groups()[0].states["momentum1"].dtype is rl.float32


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("bad", [-1, 7, 10])
def test_ids_beyond_their_own_table_are_refused(bad: int, compiled: bool):
    """Other features may have such ids: their tables are longer."""
    collection = EmbeddingBagCollection(tables())
    call = rl.compile(collection) if compiled else collection
    good = KeyedJaggedTensor(list("abcd"), rl.tensor([10, 0, 6, 4]), lengths=rl.tensor([1, 1, 1, 1]))
    call(good)
    wrong = KeyedJaggedTensor(list("abcd"), rl.tensor([10, 0, bad, 4]), lengths=rl.tensor([1, 1, 1, 1]))
    with pytest.raises(IndexError, match=r"E006|feature's table"):
        call(wrong)
    with pytest.raises(KeyError, match="missing"):
        collection(good.permute([0, 1, 2]))


@pytest.mark.parametrize("rule", ["SGD", "Adagrad", "RowWiseAdagrad", "Adam", "PartialRowWiseAdam", "LAMB"])
def test_steps_of_fused_tables_are_one_graph(rule: str):
    """Two tables share a memory, a third one has rows of another size; batches of several sizes."""
    made = []
    for _ in range(2):
        rl.manual_seed(0)
        made.append(FusedEmbeddingBagCollection(tables(), getattr(rules, rule), {"lr": 0.1}))

    def train(collection: FusedEmbeddingBagCollection, features: KeyedJaggedTensor) -> rl.Tensor:
        loss = collection(features).values().square().sum()
        loss.backward()
        return loss.detach()

    compiled = rl.compile(train, fullgraph=True)
    random = np.random.default_rng(0)
    for batch in (3, 1, 5, 3):
        lengths = random.integers(0, 4, 4 * batch)
        ids = KeyedJaggedTensor(
            list("abcd"), rl.tensor(random.integers(0, 5, lengths.sum())), lengths=rl.tensor(lengths)
        )
        assert train(made[0], ids).item() == pytest.approx(compiled(made[1], ids).item(), rel=1e-6)
    assert made[1].groups()[0].step.item() == 4
    for one, other in zip(made[0].weights_of_tables(), made[1].weights_of_tables(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    for name, state in made[0].fused_optimizer_state().items():
        np.testing.assert_array_equal(state.numpy(), made[1].fused_optimizer_state()[name].numpy())


def test_a_compiled_lookup_steps_in_each_backward_pass_and_not_before():
    found = []
    for wrap in (lambda function: function, rl.compile):
        rl.manual_seed(0)
        collection = FusedEmbeddingBagCollection(tables(), rules.RowWiseAdagrad, {"lr": 0.1})
        over = rl.nn.Linear(28, 1)
        forward = wrap(lambda features: over(collection(features).values()))  # noqa: B023 - called here
        for seed in range(3):
            result = forward(batch(seed, size=BATCH + seed))
            found.append((result.tolist(), {name: value.tolist() for name, value in weights_of(collection).items()}))
            result.sum().backward()
            found.append({name: value.tolist() for name, value in weights_of(collection).items()})
    assert found[:6] == found[6:]
