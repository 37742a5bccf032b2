"""Which rule answers an operator call: keys, the thread's state, the table of kernels, and the call itself."""

from rushlight.eager.dispatch.call import (
    Dispatched,
    call_below,
    call_function,
    called,
    dispatch,
    keys_of,
    name_operation,
    running,
    set_explanation,
)
from rushlight.eager.dispatch.keys import ALL_KEYS, BACKENDS, Alias, Key, bit, keys_in
from rushlight.eager.dispatch.memo import Memo
from rushlight.eager.dispatch.state import (
    STATE,
    Scope,
    State,
    exclude_keys,
    include_keys,
    reenter,
)
from rushlight.eager.dispatch.table import (
    FALLTHROUGH,
    Preparation,
    Registration,
    backend_key,
    register,
    register_backend,
    register_fallback,
    register_preparation,
    table_of,
)

__all__ = [
    "ALL_KEYS",
    "BACKENDS",
    "FALLTHROUGH",
    "STATE",
    "Alias",
    "Dispatched",
    "Key",
    "Memo",
    "Preparation",
    "Registration",
    "Scope",
    "State",
    "backend_key",
    "bit",
    "call_below",
    "call_function",
    "called",
    "dispatch",
    "exclude_keys",
    "include_keys",
    "keys_in",
    "keys_of",
    "name_operation",
    "reenter",
    "register",
    "register_backend",
    "register_fallback",
    "register_preparation",
    "running",
    "set_explanation",
    "table_of",
]
