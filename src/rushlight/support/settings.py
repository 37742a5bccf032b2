"""The settings: one typed table, read from `RUSHLIGHT_*` variables once, changed by `update` and `override`.

Nothing else reads the environment. `settings.get()` returns the values in force, as attributes:

    if settings.get().numerics == "fast": ...
    with settings.override(numerics="fast"): ...
"""

import os
import sys
from array import array
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar, cast, overload

from rushlight.support.errors import SettingError, error, fail
from rushlight.support.names import did_you_mean
from rushlight.support.setting_kinds import Kind, choice, flag, folder, mechanisms, share, text, topics, whole_number

PREFIX = "RUSHLIGHT_"
T = TypeVar("T")


class Setting(Generic[T]):
    """One row of the table. On the class `Settings` it is itself; on an instance, the setting's value."""

    name: str

    def __init__(self, kind: Kind[T], default: T, doc: str, *, in_key: bool = False) -> None:
        self.kind = kind
        self.default = default
        self.doc = doc
        self.in_key = in_key

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "Setting[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "Setting[T] | T":
        # Instances carry their values in their __dict__, which comes before this method.
        return self if instance is None else self.default

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return PREFIX + self.name.upper()

    def read(self, value: object) -> T:
        """Check `value`, or parse it when it is text."""
        try:
            return self.kind.read(value)
        except SettingError:
            raise
        except ValueError:
            message = f"settings: {self.variable} has a value that is not allowed"
            raise error("T002", message, value=value, hint=f"allowed: {self.kind.allowed}") from None


def _default_cache_dir() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return os.path.join(home or os.path.join(os.path.expanduser("~"), ".cache"), "rushlight")


class Settings:
    """The table of settings; an instance holds the values in force and cannot be changed."""

    backend = Setting(
        choice("rushlight", "inductor", "eager", "aot_eager", "reference"),
        "rushlight",
        "What runs graphs: our compiler (`inductor` is another name for it), eager kernels, eager kernels on the "
        "traced forward and backward, or numpy.",
        in_key=True,
    )
    target = Setting(
        text("native, or a processor or feature level of LLVM such as x86-64-v3"),
        "native",
        "The processor that code is generated for.",
        in_key=True,
    )
    numerics = Setting(
        choice("strict", "fast"),
        "strict",
        "`strict`: the same bits eager and compiled, for any thread count. `fast`: sums may be reordered, and "
        "approximations used.",
        in_key=True,
    )
    optimise = Setting(
        whole_number(0, 2),
        1,
        "How hard LLVM works at a graph's code: 0 takes a third of the time, for code that runs several times slower; "
        "2 runs all its passes. Results are the same bits.",
        in_key=True,
    )
    activation_memory_budget = Setting(
        share(),
        1.0,
        "The share of activations that a compiled forward pass may keep for its backward pass: 1 for those of which "
        "making them again takes time, 0 for the fewest bytes. Gradients have the same bits.",
    )
    without = Setting(
        mechanisms(),
        (),
        "Mechanisms of the compiler to leave out: `rushlight bench ablations` measures what each gains. Results are "
        "the same bits.",
        in_key=True,
    )
    nan_asserts = Setting(
        flag(),
        False,
        "Check the results of every kernel for NaN and infinity, and name the first that has any.",
        in_key=True,
    )
    eager_calls = Setting(
        choice("native", "python"),
        "native",
        "What makes eager calls: native code, once a call of its kind was made in Python, or Python alone, which is "
        "the specification. Set it before the process starts.",
    )
    num_threads = Setting(
        whole_number(0), 0, "Threads that one operation may use; 0 for as many as this process is allowed processors."
    )
    huge_pages = Setting(flag(), True, "Ask the system for huge pages for large allocations.")
    cache = Setting(flag(), True, "Keep compiled code on disk.")
    cache_captured = Setting(
        flag(), True, "Keep captured programs too, so that another process need not trace them (docs/caches.md)."
    )
    cache_dir = Setting(
        folder(),
        "",
        "Where compiled code is kept; empty for `rushlight` in the user's cache folder (`$XDG_CACHE_HOME`).",
    )
    cache_limit_mb = Setting(whole_number(1), 1024, "Size in MiB above which the oldest cache entries are removed.")
    tuning_s = Setting(
        whole_number(0),
        10,
        'Seconds that `mode="max-autotune"` may search for the tile of one matrix product; 0 for no search.',
    )
    tuning_strategy = Setting(
        choice("climb", "population"),
        "climb",
        "How tiles and blocks are searched: from the best to better ones beside it, or by random steps from one of the "
        "fastest. `tuning_s=0` takes the cost model's.",
    )
    tuning_finishing = Setting(
        whole_number(0),
        0,
        "Rounds after a search in which a choice nearer to the cost model's is taken, if it takes at most 1 % longer.",
    )
    tuning_timings = Setting(
        folder(),
        "",
        "Note the timings of searches in this file; if it is there already, replay them in place of measuring.",
    )
    log = Setting(topics(), (), "What to write to standard error.")
    dump = Setting(folder(), "", "Write every stage of each compilation to this folder.")
    edit = Setting(folder(), "", "Read stages back from this folder, edited.")
    repro = Setting(
        folder(),
        "",
        "Write each compiled graph to this folder as a script that compiles and checks it, when it first runs.",
    )
    compile_profile = Setting(
        folder(), "", "Write a profile of each trace, export and compilation to this folder, for a flame graph."
    )
    verify = Setting(
        flag(),
        False,
        "Check the result of every pass of the compiler, and prove that its code reads no memory that is not written.",
    )
    poison = Setting(
        whole_number(0, 255),
        0,
        "Fill memory with this byte before it is used, so that what reads it unwritten shows: 255 makes floats NaN. "
        "0 leaves memory as it is. Set it before the process starts.",
    )
    compile_tests = Setting(
        flag(), False, "Run the body of each test of Rushlight's own suite compiled in parts, by eager kernels."
    )
    part_limit = Setting(
        whole_number(0),
        0,
        "End a graph of a function in parts after so many instructions of Python; 0 for as many as a graph can hold. "
        "1 tests that functions go on from everywhere. Set it before the function is compiled.",
    )
    loop_budget = Setting(
        whole_number(0),
        50_000,
        "The most bytecodes in a row without an operator that a function in parts interprets: Python then runs the "
        "loop that they are in. 0 for any number.",
    )
    strict_parts = Setting(
        flag(),
        False,
        "Make it an error where a part of a compiled function cannot be traced for no reason of the program's (B019). "
        "Otherwise Python runs that part. Rushlight's own tests set it.",
    )
    compiled_autograd = Setting(
        flag(), False, "Compile backward passes as they run, with hooks and the gradients' sums, one program for each."
    )
    launch_dir = Setting(
        folder(), "", "Where the ranks of `rushlight launch`, which sets it, tell the launcher why they fail."
    )
    strict_fallbacks = Setting(flag(), False, "Make every fallback an error, as rl.strict() does.")

    key: str

    def __init__(self, values: Mapping[str, object]) -> None:
        named = {name: values.get(name, setting.default) for name, setting in SETTINGS.items()}
        key = ";".join(f"{name}={named[name]}" for name, setting in SETTINGS.items() if setting.in_key)
        self.__dict__.update(named, key=sys.intern(key))

    def __setattr__(self, name: str, value: object) -> None:
        fail("A004", f"settings: {name} cannot be assigned", hint="use settings.override() or settings.update()")

    def changed(self, values: Mapping[str, object]) -> "Settings":
        """Return a copy with some values changed, after checking them."""
        read = {name: _setting(name).read(value) for name, value in values.items()}
        return Settings({**self.__dict__, **read})


SETTINGS: Mapping[str, Setting[object]] = {
    name: cast(Setting[object], row) for name, row in vars(Settings).items() if isinstance(row, Setting)
}

_process: Settings | None = None
_overridden: ContextVar[Settings | None] = ContextVar("rushlight_settings", default=None)

KEY_OF_BLOCK: ContextVar[str | None] = ContextVar("rushlight_settings_key", default=None)
"""`key()` where a block overrides settings, None elsewhere. Equal keys are one object, which native code compares."""
BLOCKS = array("q", [0])
"""How many such blocks there have been: while it is 0, native code need not ask for the key."""
ON_NEW_KEY: list[Callable[[], None]] = []
"""What is called when `update` has changed the key: it forgets what was decided outside of blocks."""


def get() -> Settings:
    """Return the values in force here. The first call reads the environment, and may raise T001, T002 or T003."""
    return _overridden.get() or _process or _load()


def key() -> str:
    """Return a stable text of the settings that compiled code depends on."""
    return get().key


def values() -> dict[str, object]:
    """Return the values in force by name, which `override` takes in another process."""
    return {name: getattr(get(), name) for name in SETTINGS}


def cache_dir() -> str:
    """Return the folder that compiled code is kept in."""
    return get().cache_dir or _default_cache_dir()


def update(**values: object) -> None:
    """Change settings for the whole process, as `rl.set_num_threads` does."""
    global _process
    before = _process or _load()
    _process = before.changed(values)
    overridden = _overridden.get()
    if overridden is not None:
        changed = overridden.changed(values)
        _overridden.set(changed)
        KEY_OF_BLOCK.set(changed.key)
    if _process.key != before.key:
        for forget in ON_NEW_KEY:
            forget()


@contextmanager
def override(**values: object) -> Generator[Settings]:
    """Change settings for the statements within, in this thread or task alone."""
    changed = get().changed(values)
    BLOCKS[0] += 1
    token, key_token = _overridden.set(changed), KEY_OF_BLOCK.set(changed.key)
    try:
        yield changed
    finally:
        _overridden.reset(token)
        KEY_OF_BLOCK.reset(key_token)


def read_environment(environment: Mapping[str, str]) -> Settings:
    """Return the settings that an environment asks for; an unknown `RUSHLIGHT_` variable is an error."""
    values: dict[str, object] = {}
    for variable, value in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            if variable != PREFIX + name.upper() or name not in SETTINGS:
                hint = did_you_mean(variable, [setting.variable for setting in SETTINGS.values()])
                fail("T001", f"settings: {variable} is not a setting", hint=hint)
            values[name] = SETTINGS[name].read(value)
    return Settings(values)


_OF_LAUNCHERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"),
    *("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)


def of_launcher() -> dict[str, str]:
    """Return the variables by which a launcher tells a process its rank, as far as there are any."""
    return {name: os.environ[name] for name in _OF_LAUNCHERS if name in os.environ}


def tell_program(variables: Mapping[str, str], *, replace: bool = False) -> None:
    """Set variables of the environment that programs read, unless they are set and kept."""
    for name, value in variables.items():
        if replace or name not in os.environ:
            os.environ[name] = value


def _load() -> Settings:
    global _process
    _process = read_environment(os.environ)
    return _process


def _setting(name: str) -> Setting[object]:
    setting = SETTINGS.get(name)
    if setting is None:
        fail("T001", f"settings: {name} is not a setting", hint=did_you_mean(name, SETTINGS))
    return setting
