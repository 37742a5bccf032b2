"""Functions that are called when a backward pass is compiled: `callback(args)`, with a trigger and a number."""

from rushlight.capture.tape.callbacks import (
    CallbackArgs,
    CallbackTrigger,
    callback_handler,
    on_compile_end,
    on_compile_start,
)

__all__ = ["CallbackArgs", "CallbackTrigger", "callback_handler", "on_compile_end", "on_compile_start"]
