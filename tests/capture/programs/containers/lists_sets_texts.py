"""Lists, tuples, sets, bytes and texts: methods and the errors of their arguments."""

import collections


def case_list_methods(x, env):
    items = env.items
    items.append(x)
    items.insert(1, "in")
    items.insert(-100, "first")
    return items.pop(), items.pop(0), items.index(2), items.count(1), items.reverse(), items


def case_list_errors(x, env):
    for attempt in (
        lambda: [].pop(),
        lambda: [1].pop(5),
        lambda: [].remove(1),
        lambda: [].index(1),
        lambda: [1].insert("a", 1),
        lambda: [].extend(1),
        lambda: [1].index(1, 2),
        lambda: list(1),
        lambda: list([], []),
    ):
        try:
            attempt()
        except (IndexError, ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, x * x


def case_list_remove_uses_equality(x, env):
    class E:
        def __eq__(self, other):
            env.log.append(other)
            return other == 2

    items = [1, 2, 3]
    items.remove(E())
    return items, env.log


def case_list_index_with_bounds(x, env):
    items = [1, 2, 1, 2]
    return items.index(2, 2), items.index(1, -2), items.index(1, 0, 1), (x * 2).mean()


def case_list_multiplied_shares_elements(x, env):
    rows = [[0]] * 3
    rows[0].append(1)
    rows *= 2
    return rows


def case_list_contains_itself(x, env):
    env.items.append(env.items)
    return repr(env.items), env.items[3] is env.items, env.items == env.items


def case_list_subclass_in_place(x, env):
    class L(list):
        def __iadd__(self, other):
            env.log.append(other)
            return super().__iadd__(other)

    items = L([1])
    alias = items
    items += [2]
    items *= 2
    return alias is items, items, env.log, x / 2


def case_list_copy_and_clear(x, env):
    copy = env.items.copy()
    env.items.clear()
    return copy, env.items, list(copy) is copy, copy[:] == copy


def case_list_comparison_with_mutation(x, env):
    class E:
        def __eq__(self, other):
            env.items.clear()
            return True

    env.items[:] = [E(), E()]
    return env.items == [1, 2], x > 2


def case_tuple_methods(x, env):
    t = (1, x, 1)
    return (
        (1, 2, 1).count(1),
        (1, 2).index(2),
        t + (2,),
        (0,) * 3,
        tuple("ab"),
        tuple(t) is t,
        hash((1, 2)) == hash((1, 2.0)),
    )


def case_tuple_of_unhashable(x, env):
    return hash((1, []))


def case_set_operations(x, env):
    a, b = {1, 2, 3}, {3, 4}
    return (
        a | b,
        a & b,
        a - b,
        a ^ b,
        a.union([9], (8,)),
        a.intersection([1, 3], {3}),
        a.difference(b, [1]),
        a.symmetric_difference([1]),
        a.isdisjoint([5]),
    )


def case_set_in_place(x, env):
    a = alias = {1, 2, 3}
    a |= {4}
    a -= {1}
    a &= {2, 3, 4, 5}
    a ^= {2, 9}
    f = g = frozenset([1])
    f |= {2}
    return a is alias, a, f is g, f, g, x.relu() + 1


def case_set_operators_need_sets(x, env):
    return {1} | [2]


def case_set_operators_mixed_kinds(x, env):
    return (
        type({1} | frozenset([2])).__name__,
        type(frozenset([2]) | {1}).__name__,
        {1} == frozenset([1]),
        {1}.__or__([2]),
    ), x.exp()


def case_set_methods(x, env):
    s = {1}
    return s.add(2), s.discard(7), s.remove(1), s.pop(), s, s.update([1], "a"), len(s), s.copy() == s, s.clear(), s


def case_set_errors(x, env):
    for attempt in (
        lambda: set().pop(),
        lambda: {1}.remove(2),
        lambda: {1}.add([]),
        lambda: {[]},
        lambda: set(5),
        lambda: {1}.update(5),
        lambda: {1} < [1],
        lambda: hash({1}),
        lambda: {1}.remove([]),
    ):
        try:
            attempt()
        except (KeyError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_set_of_set_is_looked_up_as_frozenset(x, env):
    s = {frozenset([1, 2])}
    return {1, 2} in s, s.discard({1, 2}), s, 1 - x


def case_set_keeps_the_first_equal_element(x, env):
    s = {1}
    s.add(True)
    s |= {1.0}
    return s, {True, 1}, {1.0} & {1}, {1} & {1.0}


def case_set_iteration_order_of_integers(x, env):
    s = {8, 1, 3}
    s.add(16)
    s.discard(8)
    return list(s), list({5, 4, 3}), sorted(s, reverse=True), x.sum() * 3


def case_frozenset_methods(x, env):
    f = frozenset([1, 2])
    return (
        f | {3},
        f.copy() is f,
        frozenset(f) is f,
        hash(f) == hash(frozenset([2, 1])),
        {f: "key"}[frozenset([2, 1])],
        hasattr(f, "add"),
    )


def case_deque(x, env):
    d = collections.deque([1, 2, 3], maxlen=4)
    d.append(4)
    d.append(5)
    d.appendleft(x)
    d.rotate(1)
    return d, d.popleft(), d.pop() is x or d, d.maxlen, len(d), list(reversed(d))


def case_deque_methods(x, env):
    d = collections.deque("abc")
    d.extendleft("xy")
    d.insert(1, "i")
    d.remove("b")
    return (
        d,
        d.index("a"),
        d.count("a"),
        d[0],
        d[-1],
        d + collections.deque("z"),
        d == collections.deque("yixac"),
        d * 2 == d + d,
    )


def case_deque_errors(x, env):
    for attempt in (
        lambda: collections.deque().pop(),
        lambda: collections.deque([1])[3],
        lambda: collections.deque([1], -1),
        lambda: collections.deque([1]).remove(2),
        lambda: collections.deque([1], 1).insert(0, 2),
        lambda: collections.deque([1])[0:1],
    ):
        try:
            attempt()
        except (IndexError, ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, x + x


def case_deque_mutated_while_iterating(x, env):
    d = collections.deque([1, 2])
    for item in d:
        d.append(item)


def case_text_methods(x, env):
    t = " Hello, World "
    return (
        t.strip(),
        t.split(","),
        t.upper().lower(),
        t.replace("l", "L", 2),
        t.find("o"),
        t.rfind("o"),
        t.index("W"),
        t.count("l"),
        t.partition(","),
        t.strip().swapcase(),
        t.title(),
        t.center(20, "*"),
        t.isspace(),
    ), x * 2


def case_text_split_forms(x, env):
    return (
        "a b  c".split(),
        "a b  c".split(" "),
        "a,b,c".rsplit(",", 1),
        "a\nb\r\nc".splitlines(),
        "a\nb\n".splitlines(True),
        "".split(),
        "".split(","),
        "  ".split(),
        "abc".rpartition("z"),
    )


def case_text_tests(x, env):
    return (
        "abc".startswith(("x", "ab")),
        "abc".endswith("bc", 2),
        "a1".isalnum(),
        "12".isdigit(),
        "".isalpha(),
        "Ab".istitle(),
        "a".isidentifier(),
        "x".isupper(),
        "1.5".isdecimal(),
        "abc".removeprefix("a"),
        "abc".removesuffix("z"),
    )


def case_text_join_and_translate(x, env):
    return (
        ", ".join(map(str, env.items)),
        "".join([]),
        "-".join("abc"),
        "abc".translate({97: "X", 98: None}),
        str.maketrans("ab", "xy"),
        "a\tb".expandtabs(4),
        "7".zfill(3),
        "-7".zfill(4),
    ), (x + 1).sum()


def case_text_join_of_numbers(x, env):
    return ",".join(["a", 1])


def case_text_errors(x, env):
    for attempt in (
        lambda: "a".index("z"),
        lambda: "a".split(""),
        lambda: "a" * "b",
        lambda: "a".center("b"),
        lambda: "a".startswith(1),
        lambda: "{}".format(),
        lambda: "{a}".format(),
        lambda: "%d" % "a",
        lambda: "%s %s" % 1,
        lambda: "%s" % (1, 2),
        lambda: "a".replace("a"),
        lambda: str(b"a", "nope"),
    ):
        try:
            attempt()
        except (ValueError, TypeError, IndexError, KeyError, LookupError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, x - 0.5


def case_text_percent_format(x, env):
    return (
        "%s|%r|%5d|%-5s|%05.2f|%x|%%|%c" % ("a", "b", 3, "l", 3.14159, 255, "z"),
        "%(k)s %(n)03d" % {"k": 1, "n": 2},
        "%s" % [1],
        "%*d" % (5, 1),
    )


def case_text_format_method(x, env):
    class A:
        value = [10, 20]

    return (
        "{0} {1} {0}".format("a", "b"),
        "{a.value[1]:>5}".format(a=A()),
        "{:{}}".format(3, 5),
        "{!r:>5}".format("a"),
        "{{}}".format(),
        "{0[k]}".format({"k": 1}),
    )


def case_text_encode_decode(x, env):
    return (
        "é".encode(),
        b"\xc3\xa9".decode(),
        "é".encode("latin-1"),
        b"\xff".decode("utf-8", "replace"),
        "é".encode("ascii", "ignore"),
        "ab".encode("utf-16-le"),
    ), -x


def case_text_decode_error(x, env):
    return b"\xff".decode("utf-8")


def case_text_encode_error(x, env):
    env.x = x - 1
    return "é".encode("ascii")


def case_text_ordering_and_casefold(x, env):
    return "a" < "b", "a" < "B", "" < "a", "ß".casefold() == "ss", max("abc"), sorted("hello"), "abc"[::-1], "abc" * 0


def case_bytes(x, env):
    b = b"abc"
    return (
        b[0],
        b[1:],
        b + b"d",
        list(b),
        b.hex(),
        bytes.fromhex("6162"),
        bytes(3),
        bytes([1, 2]),
        b.find(b"c"),
        b.replace(b"a", b"z"),
        b.split(b"b"),
        b"%d" % 5,
        b == "abc",
    )


def case_bytearray(x, env):
    b = bytearray(b"abc")
    b[0] = 122
    b += b"d"
    b.append(33)
    b[1:2] = b"QQ"
    del b[-1]
    return b, b.decode(), bytes(b), b.pop(), x * x


def case_bytes_errors(x, env):
    for attempt in (
        lambda: bytes([256]),
        lambda: bytes("a"),
        lambda: b"a" + "b",
        lambda: bytearray(b"a").append(300),
        lambda: b"a".join(["b"]),
        lambda: bytes(-1),
        lambda: b"abc"["a"],
        lambda: int(b"z"),
    ):
        try:
            attempt()
        except (ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_bytes_item_assignment(x, env):
    y = env.y = x + 0.5
    b"abc"[0] = 1


def case_memoryview(x, env):
    b = bytearray(b"abcd")
    m = memoryview(b)[1:3]
    m[0] = 90
    return bytes(b), m.tobytes(), m.nbytes, m.readonly, m == b"Zc"


def case_int_methods(x, env):
    return (
        (255).to_bytes(2, "big"),
        int.from_bytes(b"\x01\x00", "little"),
        (10).bit_count(),
        int("0x1f", 16),
        int("101", 2),
        int(" 12 "),
        int("1_000"),
        (5).as_integer_ratio(),
        int.__name__,
    )


def case_int_conversion_errors(x, env):
    for value in ("", "1.5", "a", None, [], b"\xff", 1j):
        try:
            int(value)
        except (ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, (x * 2).mean()


def case_float_methods(x, env):
    return (
        (2.5).is_integer(),
        (0.75).as_integer_ratio(),
        (1.5).hex(),
        float.fromhex("0x1.8p+0"),
        float("-inf"),
        float("nan"),
        float(" 1e3 "),
        round(2.5),
        round(-2.675, 2),
        round(1234, -2),
        (-0.0),
        abs(-0.0),
    )


def case_float_conversion_errors(x, env):
    for attempt in (
        lambda: float("x"),
        lambda: float(None),
        lambda: float([]),
        lambda: int(float("nan")),
        lambda: int(float("inf")),
        lambda: round("a"),
        lambda: float(10**400),
    ):
        try:
            attempt()
        except (ValueError, TypeError, OverflowError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, x / 2


def case_complex_numbers(x, env):
    z = 3 + 4j
    return abs(z), z.conjugate(), z * z, z.real, z == 3 + 4j, complex("1+2j"), z / 2, complex(1, -0.0)


def case_number_formatting(x, env):
    return (
        str(1e16),
        repr(0.1),
        str(1.0),
        repr(1e-7),
        hex(-255),
        oct(8),
        bin(5),
        format(1234567.891, ",.2f"),
        format(255, "#x"),
        format(-3, "+d"),
        format(0.5, "%"),
        format(True, "d"),
    )
