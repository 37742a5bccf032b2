"""Tensors as values of Python: kept in containers, closures and objects, shared, rebound, changed in place."""

import collections
import dataclasses
import functools


def case_in_a_list(x, env):
    parts = [x, x * 2]
    parts.append(parts[0] + parts[1])
    return parts, parts[0] is x


def case_in_a_dict_that_is_updated(x, env):
    env.table["a"] = x
    env.table.update(b=x + 1, a=env.table["a"] * 2)
    return env.table["a"] - env.table["b"]


def case_same_tensor_in_two_places(x, env):
    y = x * 2
    env.first, env.log = y, [y]
    return env.first is env.log[0]


def case_two_equal_computations_are_two_objects(x, env):
    a, b = x + 1, x + 1
    return a, b, a is b


def case_argument_returned_as_it_is(x, env):
    return x, env.x is x, [x]


def case_argument_is_rebound(x, env):
    x = x + 1
    return x, env.x


def case_in_place_on_the_argument(x, env):
    x += 1
    x *= 2
    return x is env.x


def case_in_place_on_a_result(x, env):
    y = x * 2
    z = y
    y += 1
    return z, z is y, x


def case_in_place_seen_through_a_view(x, env):
    y = x * 1
    first = y[:2]
    first += 10
    return y, first


def case_in_place_through_a_function(x, env):
    def scale(t, by):
        t *= by

    scale(x, 3)
    scale(env.x, 2)
    return x + 0


def case_in_place_by_method(x, env):
    y = x.clone()
    env.log.append(y.add_(1) is y)
    y.mul_(x)
    return y


def case_in_place_before_an_exception(x, env):
    x += 1
    env.log.append("added")
    raise KeyError("after the write")


def case_item_assignment(x, env):
    y = x.clone()
    y[0], y[-1] = 9, y[0] + 1
    y[1:3] = x[:2] * 10
    return y


def case_item_assignment_to_the_argument(x, env):
    for i in range(len(x)):
        x[i] = i
    return env.x


def case_delete_and_use(x, env):
    y = x + 1
    z = y * 2
    del y
    return z


def case_unpacked(x, env):
    first, *rest = x
    return first * 2, len(rest), rest[-1] + 1


def case_unpacked_from_a_call(x, env):
    def both(t):
        return t + 1, t * 2

    a, b = both(x)
    a, b = b, a
    return a, b


def case_swap_in_a_loop(x, env):
    a, b = x, x * 0 + 1
    for _ in range(3):
        a, b = b, a + b
    return a, b


def case_in_a_tuple_key_by_identity(x, env):
    table = {(id(x) == id(env.x), 1): x}
    return table[True, 1] * 2


def case_in_a_set_by_identity(x, env):
    y = x + 0
    return len({x, env.x, y}), x in {x}, y in [y]


def case_as_a_default(x, env):
    def f(t=x * 2, *, u=x):
        return t + u

    return f(), f(x), f(u=x * 0)


def case_in_a_closure(x, env):
    weight = x * 0.5

    def layer(t):
        return t * weight + 1

    return layer(layer(x))


def case_in_a_cell_that_changes(x, env):
    total = x * 0

    def add(t):
        nonlocal total
        total = total + t
        return total

    add(x)
    add(x * 2)
    return total


def case_in_an_instance(x, env):
    class Layer:
        def __init__(self, weight):
            self.weight, self.calls = weight, 0

        def __call__(self, t):
            self.calls += 1
            return t * self.weight

    layer = Layer(x + 1)
    return layer(layer(x)), layer.calls, layer


def case_in_a_class(x, env):
    class Config:
        scale = x * 2
        shift = scale + 1

    return Config.scale - Config.shift, Config().scale is Config.scale


def case_in_a_dataclass(x, env):
    @dataclasses.dataclass
    class Batch:
        data: object
        labels: list

        def scaled(self, by):
            return dataclasses.replace(self, data=self.data * by)

    batch = Batch(x, [1])
    other = batch.scaled(2)
    return other, other.labels is batch.labels, batch.data is x


def case_in_a_named_tuple(x, env):
    Out = collections.namedtuple("Out", "logits loss")
    out = Out(x * 2, (x * x).mean())
    logits, loss = out
    return out, logits is out.logits, out._replace(loss=loss + 1).loss


def case_in_a_property(x, env):
    class Model:
        def __init__(self):
            self._w = x

        @property
        def w(self):
            env.log.append("read")
            return self._w * 2

        @w.setter
        def w(self, value):
            self._w = value - 1

    model = Model()
    model.w = model.w + 1
    return model.w, env.log


def case_in_a_partial(x, env):
    add = functools.partial(lambda a, b, scale: (a + b) * scale, x, scale=2)
    return add(1), add(x, scale=0.5)


def case_in_a_deque_window(x, env):
    window = collections.deque(maxlen=2)
    for i in range(4):
        window.append(x * i)
    return sum(window), len(window)


def case_in_a_default_dict_of_lists(x, env):
    groups = collections.defaultdict(list)
    for i in range(4):
        groups[i % 2].append(x + i)
    return {key: sum(values) for key, values in groups.items()}


def case_kept_in_the_environment(x, env):
    env.history = [env.x]
    env.x = x * 2
    env.history.append(env.x)
    return env.history[-1] is env.x


def case_replaced_in_a_nested_container(x, env):
    env.nested["a"][0] = x + 1
    env.nested["b"] = {"c": (x, [x * 2])}
    env.nested["b"]["c"][1].append(x)
    return env.nested["a"][0] * 2


def case_removed_from_a_container(x, env):
    env.log.extend([x, x + 1, x + 2])
    env.log.pop(0)
    del env.log[0]
    return env.log[0] - x


def case_swapped_attributes(x, env):
    env.a, env.b = x + 1, x + 2
    env.a, env.b = env.b, env.a
    return env.a - env.b


def case_object_that_refers_to_itself(x, env):
    class Node:
        pass

    node = Node()
    node.value, node.me = x * 2, node
    env.node = node
    return node.me.me.value is node.value


def case_linked_list_of_tensors(x, env):
    chain = None
    for i in env.items:
        chain = (x * i, chain)
    total = 0
    while chain is not None:
        value, chain = chain
        total = total + value
    return total


def case_with_attributes_of_its_own(x, env):
    x.note = "kept"
    y = x * 2
    return x.note, hasattr(y, "note"), env.x.note


def case_type_and_isinstance(x, env):
    y = x + 1
    return type(y) is type(x), isinstance(y, type(env.x)), isinstance(y, (int, float)), callable(y)


def case_metadata_steers_python(x, env):
    y = x * 2
    if y.dim() == 1 and y.shape[0] == 4 and not y.requires_grad and y.is_floating_point():
        return y.numel(), tuple(y.shape), y.ndim, len(y), y.dtype == x.dtype
    return "wrong"


def case_is_none_and_identity_tests(x, env):
    y = x + 1 if env.count == 0 else None
    return (y is not None and y * 2), y is not x, x is env.x


def case_hash_is_identity(x, env):
    y = x + 0
    return hash(x) == hash(env.x), {x: "a"}.get(y), {y: "b"}[y]


def case_gradient_flags(x, env):
    y = x.clone().requires_grad_()
    z = (y * 2).sum()
    return y.requires_grad, z.requires_grad, x.requires_grad, z.detach()


def case_gradient_inside(x, env):
    w = x.clone().requires_grad_()
    loss = (w * w).sum()
    loss.backward()
    return w.grad, loss.detach()


def case_shape_arithmetic(x, env):
    n = x.shape[0]
    return x.reshape(n // 2, 2) * n, x[: n - 1].sum(), x.unsqueeze(0).shape[1] + n


def case_zero_tensors(x, env):
    parts = [x * i for i in range(0)]
    return sum(parts), sum(parts, x), x[:0].sum()
