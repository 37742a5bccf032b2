"""Subscripts, slices, `__index__`, `len`, and slots of sequences and mappings."""


class Key:
    """Gives back its subscript."""

    def __getitem__(self, key):
        return key


class Index:
    """An object that is a number where an index is asked for."""

    def __init__(self, value, log=None):
        self.value, self.log = value, log

    def __index__(self):
        if self.log is not None:
            self.log.append(self.value)
        return self.value


def case_subscript_forms(x, env):
    k = Key()
    return k[1], k[1, 2], k[1:2], k[::2], k[:, None, ...], k[()], k[(1,)], k[1:2, 3], x / 2


def case_slice_of_objects(x, env):
    found = Key()[env.items : None : x]
    return found.start is env.items, found.stop, found.step is x


def case_slice_evaluation_order(x, env):
    def v(n):
        env.log.append(n)
        return n

    return Key()[v(1) : v(2) : v(3), v(4)], env.log


def case_index_objects(x, env):
    return env.items[Index(1)], "abc"[Index(-1)], (1, 2)[Index(0)], range(9)[Index(3)], x[Index(2)]


def case_slice_with_index_objects(x, env):
    return env.items[Index(1, env.log) : Index(9, env.log)], "abcdef"[:: Index(-2, env.log)], env.log, x > 2


def case_slice_with_float(x, env):
    return env.items[1.0:]


def case_index_with_float(x, env):
    return env.items[1.0]


def case_index_with_text(x, env):
    env.y = x * 2
    return (1, 2)["a"]


def case_index_text_with_none(x, env):
    return "abc"[None]


def case_index_out_of_range(x, env):
    for attempt in (lambda: [][0], lambda: ()[0], lambda: ""[0], lambda: b""[0], lambda: range(0)[0], lambda: [1][-2]):
        try:
            attempt()
        except IndexError as error:
            env.log.append(str(error))
    return env.log, x.relu() + 1


def case_index_too_large(x, env):
    return env.items[2**70]


def case_slice_with_huge_bounds(x, env):
    return env.items[-(2**70) : 2**70], "abc"[2**70 :], env.items[:: 2**70]


def case_slice_step_zero(x, env):
    env.total = (x + 1).sum()
    return env.items[::0]


def case_slices_of_all_signs(x, env):
    items = list(range(7))
    return items[5:1:-2], items[-3:], items[:-3], items[::-1], items[10:], items[3:1], items[-100:2]


def case_slice_is_a_copy(x, env):
    copy = env.items[:]
    copy.append(4)
    return copy, env.items, copy is env.items, (t := (1, 2))[:] is t, x.exp()


def case_slice_assignment_of_an_iterator(x, env):
    env.items[1:] = (i * 10 for i in range(3))
    return env.items


def case_slice_attributes_and_indices(x, env):
    s = slice(1, -1, 2)
    return s.start, s.stop, s.step, s.indices(7), slice(None).indices(3), s == slice(1, -1, 2), repr(s)


def case_getitem_raises_key_error(x, env):
    env.x = x - 1
    return env.nested["missing"]


def case_missing_of_dict_subclass(x, env):
    class D(dict):
        def __missing__(self, key):
            env.log.append(key)
            return key * 2

    d = D(a=1)
    return d["a"], d["b"], d.get("c"), "b" in d, env.log


def case_getitem_of_dict_subclass(x, env):
    class D(dict):
        def __getitem__(self, key):
            return "mine"

    d = D(a=1)
    return d["a"], d.get("a"), {**d}, dict(d), "%(a)s" % d, 1 - x


def case_subscript_of_no_container(x, env):
    return env.count[0]


def case_subscript_assignment_of_no_container(x, env):
    env.count[0] = 1


def case_subscript_deletion_of_no_container(x, env):
    y = env.y = x + 0.5
    del env.count[0]


def case_subscript_of_a_function(x, env):
    return len[0]


def case_setitem_without_getitem(x, env):
    class A:
        def __setitem__(self, key, value):
            env.log.append((key, value))

    a = A()
    a[1:2] = x
    a[0]


def case_class_getitem(x, env):
    class A:
        def __class_getitem__(cls, item):
            return cls.__name__, item

    class B(A):
        pass

    return A[int], B[1, 2], x.sum() * 3


def case_metaclass_getitem_wins_over_class_getitem(x, env):
    class Meta(type):
        def __getitem__(cls, item):
            return "meta", item

    class A(metaclass=Meta):
        def __class_getitem__(cls, item):
            return "class"

    return A[0]


def case_class_that_cannot_be_subscripted(x, env):
    class A:
        pass

    return A[int]


def case_generic_alias(x, env):
    alias = list[int]
    return (
        alias.__origin__,
        alias.__args__,
        repr(dict[str, list[int]]),
        alias == list[int],
        type(alias([1])) is list,
        x + x,
    )


def case_len_of_user_objects(x, env):
    class A:
        def __len__(self):
            return Index(3)

    return len(A()), len(x), len(range(10**3))


def case_len_errors(x, env):
    def sized(answer):
        return type("A", (), {"__len__": lambda self: answer})()

    for value in (sized(-1), sized(2**70), sized(1.5), sized("3"), sized(None), 5, object()):
        try:
            env.log.append(len(value))
        except (TypeError, ValueError, OverflowError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_len_on_the_instance_does_not_count(x, env):
    env.y = x * x

    class A:
        pass

    a = A()
    a.__len__ = lambda: 3
    return len(a)


def case_length_hint(x, env):
    import operator

    class A:
        def __length_hint__(self):
            return 7

    iterator = iter([1, 2, 3])
    next(iterator)
    return (
        operator.length_hint(A()),
        operator.length_hint(iterator),
        operator.length_hint((i for i in ()), 2),
    )


def case_index_of_wrong_type(x, env):
    return env.items[Index("1")]


def case_index_that_raises(x, env):
    env.y = x * 2

    class Bad:
        def __index__(self):
            raise KeyError("index")

    return env.items[Bad()]


def case_index_of_bool_and_subclass(x, env):
    class Int(int):
        def __index__(self):
            return 2

    return env.items[True], env.items[Int(0)], "abc"[False]


def case_negative_index_with_user_getitem(x, env):
    class A:
        def __len__(self):
            return 10

        def __getitem__(self, key):
            return key

    return A()[-1], A()[-3:], x * 2


def case_reversed_by_len_and_getitem(x, env):
    class A:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            env.log.append(index)
            return index * 10

    return list(reversed(A())), env.log


def case_reversed_method(x, env):
    class A:
        def __reversed__(self):
            return "anything"

    class B:
        __reversed__ = None

        def __len__(self):
            return 0

        def __getitem__(self, i):
            return i

    env.log.append(reversed(A()))
    reversed(B())


def case_reversed_of_no_sequence(x, env):
    env.total = (x + 1).sum()
    return reversed({1, 2})


def case_item_and_slice_of_tensor(x, env):
    return x[1] * 2, x[1:3], x[-1], x[::2], x[None], x[..., 0]


def case_tensor_indexed_out_of_range(x, env):
    try:
        x[4]
    except IndexError:
        return "index error", x + 1


def case_tensor_item_assignment(x, env):
    y = x * 1
    y[0] = 10
    y[1:3] += 1
    return y, x


def case_operator_itemgetter_of_slices(x, env):
    import operator

    return (
        operator.getitem(env.items, slice(1)),
        operator.itemgetter(0, -1)(env.items),
        operator.itemgetter("a")(env.nested),
    )
