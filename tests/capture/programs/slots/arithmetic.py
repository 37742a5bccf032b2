"""Number slots: which method is asked, in which order, and what is raised when none answers."""


def logging(env, name, answers, base=object):
    """A class whose operators log themselves and give `answers`, or NotImplemented."""

    def method(slot):
        def call(self, *others):
            env.log.append((name, slot))
            return answers.get(slot, NotImplemented)

        return call

    slots = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor divmod".split()
    names = [f"__{prefix}{slot}__" for slot in slots for prefix in ("", "r", "i") if (prefix, slot) != ("i", "divmod")]
    return type(name, (base,), {slot: method(slot) for slot in names})


def case_left_first(x, env):
    A, B = logging(env, "A", {"__add__": 1}), logging(env, "B", {"__radd__": 2})
    return A() + B(), env.log, x > 2


def case_reflected_after_not_implemented(x, env):
    A, B = logging(env, "A", {}), logging(env, "B", {"__rsub__": 2})
    return A() - B(), env.log


def case_neither_answers(x, env):
    env.x = x - 1
    A, B = logging(env, "A", {}), logging(env, "B", {})
    A() * B()


def case_same_type_is_asked_once(x, env):
    A = logging(env, "A", {"__radd__": 1})
    A() + A()


def case_subclass_on_the_right_goes_first(x, env):
    A = logging(env, "A", {"__add__": 1})
    B = logging(env, "B", {"__radd__": 2}, A)
    return A() + B(), env.log


def case_subclass_that_does_not_override_does_not_go_first(x, env):
    A = logging(env, "A", {"__add__": 1, "__radd__": 2})
    B = type("B", (A,), {})
    return A() + B(), env.log, x.relu() + 1


def case_subclass_on_the_left(x, env):
    A = logging(env, "A", {"__radd__": 1})
    B = logging(env, "B", {}, A)
    return B() + A(), env.log


def case_subclass_goes_first_and_declines(x, env):
    A = logging(env, "A", {"__floordiv__": "A"})
    B = logging(env, "B", {}, A)
    return A() // B(), env.log, x.exp()


def case_in_place_falls_back_to_binary(x, env):
    A = logging(env, "A", {"__add__": 5})
    a = A()
    a += 1
    return a, env.log


def case_in_place_falls_back_to_reflected(x, env):
    A, B = logging(env, "A", {}), logging(env, "B", {"__rmod__": 6})
    a = A()
    a %= B()
    return a, env.log


def case_in_place_error_names_the_operator(x, env):
    y = env.y = x + 0.5
    a = object()
    a += 1


def case_in_place_errors_of_all_operators(x, env):
    import operator

    for name in "iadd isub imul itruediv ifloordiv imod ipow imatmul ilshift irshift iand ior ixor".split():
        try:
            getattr(operator, name)(object(), [])
        except TypeError as error:
            env.log.append(str(error))
    return env.log


def case_binary_errors_of_all_operators(x, env):
    for attempt in (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: a**b,
        lambda a, b: a @ b,
        lambda a, b: a << b,
        lambda a, b: a >> b,
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: a ^ b,
        divmod,
        pow,
    ):
        try:
            attempt(None, {})
        except TypeError as error:
            env.log.append(str(error))
    return env.log, 1 - x


def case_unary_operators(x, env):
    class A:
        def __neg__(self):
            return "neg"

        def __pos__(self):
            return x + 1

        def __invert__(self):
            return "invert"

        def __abs__(self):
            return "abs"

    return -A(), +A(), ~A(), abs(A()), -x


def case_unary_errors(x, env):
    for attempt in (lambda v: -v, lambda v: +v, lambda v: ~v, abs, lambda v: round(v)):
        try:
            attempt("text")
        except TypeError as error:
            env.log.append(str(error))
    return env.log


def case_operator_set_to_none_blocks(x, env):
    class A:
        def __add__(self, other):
            return "A"

    class B(A):
        __radd__ = None

    class C(A):
        __add__ = None

    for attempt in (lambda: A() + B(), lambda: C() + 1):
        try:
            env.log.append(attempt())
        except TypeError as error:
            env.log.append(str(error))
    return env.log


def case_operator_on_the_instance_does_not_count(x, env):
    env.y = x * x

    class A:
        pass

    a = A()
    a.__add__ = lambda other: 1
    return a + 1


def case_operator_by_getattr_does_not_count(x, env):
    class A:
        def __getattr__(self, name):
            env.log.append(name)
            return lambda *args: 1

    return A() - 1


def case_operator_is_a_class_method(x, env):
    class A:
        @classmethod
        def __add__(cls, other):
            return cls.__name__, other

        @staticmethod
        def __mul__(other):
            return "static", other

    return A() + 1, A() * 2, x.sum() * 3


def case_operator_is_an_object_with_call(x, env):
    class Call:
        def __call__(self, *args):
            return args[-1], len(args)

    class A:
        __add__ = Call()

    return A() + 5


def case_operator_is_a_descriptor(x, env):
    class Descriptor:
        def __get__(self, instance, owner):
            env.log.append((type(instance).__name__, owner.__name__))
            return lambda other: other * 2

    class A:
        __add__ = Descriptor()

    return A() + 4, env.log


def case_not_implemented_from_a_direct_call(x, env):
    return (1).__add__("a"), int.__sub__(1, 2.0), [].__eq__(()), x + x


def case_sequence_concatenation_after_numbers(x, env):
    class R:
        def __radd__(self, other):
            return "reflected", other

        def __rmul__(self, other):
            return "times", other

    return env.items + R(), "text" + R(), (1,) * R()


def case_sequence_repeat_by_index(x, env):
    class Two:
        def __index__(self):
            return 2

    return [0] * Two(), Two() * "ab", (1,) * -1, x * 2


def case_sequence_repeat_by_float(x, env):
    return [0] * 2.0


def case_list_plus_tuple(x, env):
    return env.items + (4,)


def case_text_plus_number(x, env):
    env.y = x * 2
    return "a" + 1


def case_number_plus_text(x, env):
    return 1 + "a"


def case_power_of_three_arguments(x, env):
    class A:
        def __pow__(self, other, modulus=None):
            return "pow", other, modulus

        def __rpow__(self, other):
            return "rpow", other

    return pow(A(), 2, 5), A() ** 3, 2 ** A(), pow(3, 4, 5), pow(3, -1, 7), (x + 1).sum()


def case_power_in_place_passes_no_modulus(x, env):
    class A:
        def __ipow__(self, *args):
            return args

    a = A()
    a **= 2
    return a


def case_divmod_and_round(x, env):
    class A:
        def __divmod__(self, other):
            return "divmod", other

        def __rdivmod__(self, other):
            return "rdivmod", other

        def __round__(self, *digits):
            return digits

        def __trunc__(self):
            return 3

        def __floor__(self):
            return "floor"

    import math

    return divmod(A(), 2), divmod(7, A()), round(A()), round(A(), 2), round(A(), None), math.trunc(A()), math.floor(A())


def case_conversions(x, env):
    class A:
        def __int__(self):
            return 3

        def __float__(self):
            return 2.5

        def __complex__(self):
            return 1j

        def __index__(self):
            return 4

        def __bytes__(self):
            return b"ab"

        def __str__(self):
            return "str"

        def __repr__(self):
            return "repr"

        def __format__(self, spec):
            return f"<{spec}>"

        def __hash__(self):
            return 11

    a = A()
    return (
        int(a),
        float(a),
        complex(a),
        hex(a),
        bytes(a),
        str(a),
        repr(a),
        f"{a:x}",
        f"{a!s:>5}",
        hash(a),
        [a].__repr__(),
    ), x - 0.5


def case_conversions_of_wrong_types(x, env):
    class A:
        def __int__(self):
            return 3.5

        def __float__(self):
            return 1

        def __index__(self):
            return "1"

        def __str__(self):
            return 5

        def __repr__(self):
            return None

        def __hash__(self):
            return "h"

        def __format__(self, spec):
            return 1

        def __complex__(self):
            return 2

        def __bytes__(self):
            return "b"

    for convert in (int, float, bin, str, repr, hash, format, complex, bytes, len):
        try:
            env.log.append(convert(A()))
        except TypeError as error:
            env.log.append(str(error))
    return env.log


def case_int_falls_back_to_index(x, env):
    class A:
        def __index__(self):
            return 9

    return int(A()), float(A()), complex(A()), range(10)[A()], -x


def case_hash_of_large_and_minus_one(x, env):
    class A:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return self.value

    return hash(A(-1)), hash(A(2**70)), hash(A(True)), hash(-1), hash(1.0) == hash(1)


def case_hash_is_none_when_eq_is_defined(x, env):
    class A:
        def __eq__(self, other):
            return True

    class B(A):
        __hash__ = object.__hash__

    {B(): 1}
    return {A(): 1}


def case_matmul_reflected(x, env):
    class M:
        def __rmatmul__(self, other):
            return "rmatmul", other

    return env.items @ M(), x @ x


def case_tensor_with_reflected_object(x, env):
    class Scale:
        def __radd__(self, other):
            return "never"

        def __mul__(self, other):
            return other * 3

    return Scale() * x, 2 * x, 1 - x, 2.0 / x


def case_bool_arithmetic(x, env):
    return True + True, True / 2, -True, True << 3, True & False, True | 2, x * True


def case_integer_floor_and_modulo_signs(x, env):
    return -7 // 2, -7 % 3, 7 % -3, divmod(-7, 2), -7.5 // 2, -7.5 % 2, 0.0 % -1, int(-7.9), x * x


def case_shift_by_negative(x, env):
    return 1 << -1


def case_large_integers(x, env):
    n = 2**100
    return n * n % 97, n >> 98, -n // 3, n & (n - 1), (n + 1) ** 2 - n**2, n.bit_length(), (x * 2).mean()


def case_expression_order_of_operands(x, env):
    def v(n):
        env.log.append(n)
        return n

    return v(1) + v(2) * v(3) ** v(4) - -v(5) // v(6), env.log


def case_not_implemented_is_returned_by_both(x, env):
    class A:
        def __add__(self, other):
            env.log.append("add")
            return NotImplemented

        def __radd__(self, other):
            env.log.append("radd")
            return NotImplemented

    return A() + 1


def case_exception_in_operator_stops_the_search(x, env):
    env.total = (x + 1).sum()

    class A:
        def __add__(self, other):
            raise KeyError("left")

    class B:
        def __radd__(self, other):
            return 1

    return A() + B()
