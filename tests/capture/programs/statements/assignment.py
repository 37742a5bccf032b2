"""Assignment, deletion and augmented assignment, to every kind of target, in the order that Python evaluates."""


class Recorder:
    """A target that logs what happens to it."""

    def __init__(self, log):
        object.__setattr__(self, "log", log)

    def __getattr__(self, name):
        self.log.append(("get", name))
        return 10

    def __setattr__(self, name, value):
        self.log.append(("set", name, value))

    def __delattr__(self, name):
        self.log.append(("delete", name))

    def __getitem__(self, key):
        self.log.append(("getitem", key))
        return 20

    def __setitem__(self, key, value):
        self.log.append(("setitem", key, value))

    def __delitem__(self, key):
        self.log.append(("delitem", key))


def note(env, value):
    env.log.append(value)
    return value


def case_chain_assigns_left_to_right(x, env):
    i = 0
    i = env.items[i] = 2
    return i, env.items, (x + 1).sum()


def case_value_before_target(x, env):
    env.table[note(env, "key")] = note(env, "value")
    return env.table


def case_subscript_evaluation_order(x, env):
    def target():
        env.log.append("target")
        return env.table

    target()[note(env, "key")] = x * note(env, 2)
    return env.table["key"]


def case_attribute_target_is_evaluated_after_value(x, env):
    def target():
        env.log.append("target")
        return env

    target().count = note(env, 5)
    return env.count, x - 0.5


def case_same_object_in_chain(x, env):
    a = b = env.table["k"] = env.fresh = []
    a.append(1)
    return a is b, env.fresh


def case_swap(x, env):
    a, b = x + 1, x * 2
    a, b = b, a
    return a, b


def case_swap_of_subscript_that_uses_the_new_index(x, env):
    i = 0
    i, env.items[i] = 2, 9
    return i, env.items


def case_augmented_attribute_reads_then_writes(x, env):
    target = Recorder(env.log)
    target.a += note(env, 1)
    return len(env.log), -x


def case_augmented_subscript_evaluates_key_once(x, env):
    target = Recorder(env.log)
    target[note(env, "k")] += note(env, 1)
    return env.log


def case_augmented_slice(x, env):
    target = Recorder(env.log)
    target[1 : note(env, 3) : 2] -= 1
    return env.log, x * x


def case_augmented_list_in_place(x, env):
    alias = env.items
    env.items += (4, 5)
    return alias is env.items, alias


def case_list_plus_list_is_new(x, env):
    alias = env.items
    env.items = env.items + [4]
    return alias is env.items, alias


def case_augmented_item_of_a_tuple_changes_and_raises(x, env):
    pair = (env.items, 1)
    try:
        pair[0] += [4]
    except TypeError as error:
        env.log.append(str(error))
    return pair, (x * 2).mean()


def case_augmented_tensor_keeps_the_caller(x, env):
    y = x
    y = y * 2
    y += 1
    return y, x


def case_augmented_tensor_in_place_is_seen_by_aliases(x, env):
    y = x
    y += 1
    return y is env.x, env.x


def case_augmented_nested_dict_of_lists(x, env):
    env.nested["a"] += [3]
    env.nested["a"][0] += 10
    return env.nested


def case_all_augmented_operators(x, env):
    a = 29
    for step in range(11):
        if step == 0:
            a += 3
        elif step == 1:
            a -= 1
        elif step == 2:
            a *= 7
        elif step == 3:
            a //= 2
        elif step == 4:
            a %= 100
        elif step == 5:
            a <<= 3
        elif step == 6:
            a >>= 1
        elif step == 7:
            a |= 5
        elif step == 8:
            a &= 0x7E
        elif step == 9:
            a ^= 3
        else:
            a **= 2
        env.log.append(a)
    a /= 3
    return a, x / 2


def case_matmul_in_place(x, env):
    class M:
        def __imatmul__(self, other):
            env.log.append(other)
            return other

    m = M()
    m @= x + 1
    return m


def case_in_place_result_replaces_the_name(x, env):
    class Odd:
        def __iadd__(self, other):
            return "replaced"

    a = b = Odd()
    a += 1
    return a, type(b).__name__


def case_augmented_unbound_local(x, env):
    count += 1
    return count


def case_augmented_missing_key(x, env):
    env.x = x - 1
    env.table["missing"] += note(env, 1)


def case_augmented_missing_attribute(x, env):
    env.missing += note(env, 1)


def case_delete_name_then_use(x, env):
    a = x + 1
    del a
    return a


def case_delete_unbound(x, env):
    y = env.y = x + 0.5
    del never
    never = 1


def case_delete_twice(x, env):
    a = 1
    del a
    del a


def case_delete_several_in_order(x, env):
    target = Recorder(env.log)
    a = 1
    del target.first, target[0], a, target[1:2]
    return env.log


def case_delete_item_and_slice(x, env):
    del env.items[0], env.items[0:1]
    return env.items, x > 2


def case_delete_attribute_of_environment(x, env):
    del env.count
    return hasattr(env, "count")


def case_delete_missing_attribute(x, env):
    env.y = x * x
    del env.missing


def case_delete_missing_key(x, env):
    del env.table[note(env, "k")]


def case_delete_index_out_of_range(x, env):
    del env.items[7]


def case_delete_in_parentheses(x, env):
    env.y = x * 2
    a, b, c = 1, 2, 3
    del (a, [b, c])
    try:
        return c
    except UnboundLocalError as error:
        return str(error)


def case_assign_to_tuple_item(x, env):
    pair = (1, 2)
    pair[note(env, 0)] = note(env, 5)


def case_assign_to_text_item(x, env):
    env.total = (x + 1).sum()
    text = "abc"
    text[0] = "d"


def case_assign_slice_of_other_length(x, env):
    env.items[1:2] = [7, 8, 9]
    return env.items


def case_assign_extended_slice_of_wrong_length(x, env):
    env.items[::2] = [1]


def case_assign_slice_of_no_iterable(x, env):
    env.x = x - 1
    env.items[0:1] = 5


def case_assign_slice_to_itself(x, env):
    env.items[1:1] = env.items
    return env.items


def case_annotated_assignment_evaluates_value_only(x, env):
    a: note(env, "annotation") = note(env, "value")
    return a, x.relu() + 1


def case_annotation_without_value_binds_nothing(x, env):
    a: int
    return a


def case_annotated_attribute_evaluates_target_and_annotation(x, env):
    (env.fresh): note(env, int) = note(env, 1)
    return env.fresh


def case_name_is_bound_after_failing_value(x, env):
    a = 1
    try:
        a = env.missing
    except AttributeError:
        pass
    return a, x * a


def case_failing_target_leaves_earlier_targets_bound(x, env):
    y = env.y = x + 0.5
    try:
        a = env.items[9] = b = 5
    except IndexError as error:
        env.log.append(str(error))
    env.log.append(a)
    return b


def case_walrus_binds_in_the_function(x, env):
    if (n := len(env.items)) > 2:
        env.log.append(n)
    return n, (m := x * 2), m


def case_walrus_in_arguments(x, env):
    def f(*args, **kwargs):
        return args, kwargs

    return f(a := 1, b=(c := a + 1)), a, c


def case_walrus_in_subscript(x, env):
    return env.items[(i := 1)], i, x.exp()


def case_walrus_in_a_condition_that_short_circuits(x, env):
    if False and (n := 1):
        pass
    return n


def case_everything_of_a_module_in_a_text(x, env):
    space = {}
    exec("from math import *\nhalf = floor(2.5)", space)
    return space["half"], "sqrt" in space, x + 1
