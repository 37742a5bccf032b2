"""f-strings: order of evaluation, conversions, nested specifications, `=`, and errors."""


class Shown:
    """Shows what is asked of it."""

    def __init__(self, log=None):
        self.log = log

    def __str__(self):
        return "str"

    def __repr__(self):
        return "repr"

    def __format__(self, spec):
        if self.log is not None:
            self.log.append(spec)
        return f"<{spec}>"


def case_plain(x, env):
    return f"", f"text", f"{1}{2}", f"a{env.count}b{env.items}c", 1 - x


def case_conversions(x, env):
    s = Shown()
    return f"{s}", f"{s!s}", f"{s!r}", f"{s!a}", f"{s:x}", f"{s!r:>6}", f"{'é'!a}"


def case_specification(x, env):
    return (
        f"{3.14159:.2f}",
        f"{255:#06x}",
        f"{'a':*^5}",
        f"{1234567:,}",
        f"{5:>{3}}",
        f"{0.5:%}",
        f"{-3:=+5}",
        f"{True:5}",
    ), x.sum() * 3


def case_nested_specification(x, env):
    width, digits = 8, 2
    return f"{3.14159:{width}.{digits}f}", f"{'a':{'*'}^{width - 3}}", f"{Shown():{env.count}{'x'!r}}"


def case_specification_is_passed_whole(x, env):
    return f"{Shown(env.log):a b{1}c}", f"{Shown(env.log)}", env.log


def case_equals_sign(x, env):
    n = 3
    return f"{n=}", f"{n = }", f"{n + 1=}", f"{'a'=}", f"{n=:>4}", f"{Shown()=!s}", f"{env.items[0]=}", x + x


def case_order_of_evaluation(x, env):
    def v(n):
        env.log.append(n)
        return n

    return f"{v(1)}{v(2):{v(3)}}{v(4)!r}", env.log


def case_expressions(x, env):
    return (
        f"{(lambda a: a * 2)(3)}",
        f"{[i for i in env.items]}",
        f"{ {'a': 1}['a'] }",
        f"{1 if env.count else 2}",
        f"{env.count or 'none'}",
        f"{(n := 5)}{n}",
    ), x * 2


def case_braces_and_quotes(x, env):
    return f"{{}}", f"{{{1}}}", f"{'ab'}", f"{'it'}'s", f"{1}{{2}}{3}", rf"\n{1}"


def case_multi_line(x, env):
    return f"""{env.count + 1}
    end"""


def case_nested_f_strings(x, env):
    return (
        f"{f'{1}{env.count}'}",
        f"{'-'.join(f'{i}' for i in env.items)}",
    ), (x + 1).sum()


def case_error_in_expression(x, env):
    return f"{env.count}{env.missing}"


def case_error_in_format(x, env):
    env.total = (x + 1).sum()

    class A:
        def __format__(self, spec):
            raise KeyError(spec)

    return f"a{A():zz}"


def case_format_returns_no_text(x, env):
    class A:
        def __format__(self, spec):
            return 5

    return f"{A()}"


def case_wrong_specification(x, env):
    for attempt in (
        lambda: f"{1:z9}",
        lambda: f"{'a':d}",
        lambda: f"{[]:5}",
        lambda: f"{None:>5}",
        lambda: f"{1.5:d}",
        lambda: f"{object():x}" and None,
    ):
        try:
            attempt()
        except (ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_str_subclass(x, env):
    class S(str):
        def __str__(self):
            return "mine"

        def __format__(self, spec):
            return "formatted"

    s = S("value")
    return f"{s}", f"{s!s}", f"{s!r}", "%s" % s, str(s), "".join([s]), x - 0.5


def case_str_returns_subclass(x, env):
    class S(str):
        pass

    class A:
        def __str__(self):
            return S("a")

    return type(str(A())).__name__, type(f"{A()}").__name__, type(f"{A()!s}").__name__


def case_str_falls_back_to_repr(x, env):
    class A:
        def __repr__(self):
            return "repr of A"

    return str(A()), f"{A()}", f"{[A()]}", "%s" % (A(),), f"{A()!s:>12}", -x


def case_repr_returns_no_text(x, env):
    class A:
        def __repr__(self):
            return 5

    return f"{A()!r}"


def case_shape_in_text(x, env):
    y = x * 2
    return f"{tuple(y.shape)} {y.dtype} {len(y)}", y


def case_number_texts(x, env):
    return f"{1e100} {1e-5} {0.1 + 0.2} {-0.0} {float('nan')} {1_000_000} {2**70} {1j} {True}"


def case_debug_of_nested_quotes(x, env):
    return f"{env.nested['a']=}", f'{env.nested["a"][0]=:03d}', x * x


def case_format_function(x, env):
    return format(Shown(), "spec"), format(5), format("a", ">3"), format(Shown())


def case_format_function_wrong(x, env):
    env.x = x - 1
    return format(1, 2)


def case_template_by_join(x, env):
    parts = [f"{name}={value!r}" for name, value in sorted(vars(env).items()) if name in ("count", "items")]
    return ";".join(parts)


def case_print_uses_str(x, env):
    print(Shown(), [Shown()], f"{Shown()}")
    print(*map(str, env.items), sep="", end="|")
    return x + 1
