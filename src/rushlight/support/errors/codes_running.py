"""Codes of failures while a program runs: gradients, memory, devices, kernels."""

from rushlight.support.errors.classes import (
    ArgumentTypeError,
    AutogradError,
    DeviceError,
    DeviceWarning,
    ExecutionError,
    FallbackError,
    GradientWarning,
    LinAlgError,
    NotSupportedError,
    OutOfMemoryError,
)
from rushlight.support.errors.registry import register_code

register_code(
    "G001",
    AutogradError,
    "Backward through the same graph twice",
    "The tensors saved for backward were freed by the first call.",
    "pass retain_graph=True to the first backward(), or compute the loss again",
)
register_code(
    "G002",
    AutogradError,
    "In-place change of a leaf that requires gradients",
    "The leaf's old value would be lost, and its gradient would be for a value it no longer has.",
    "update parameters under rl.no_grad(), or change a clone()",
)
register_code(
    "G003",
    AutogradError,
    "A tensor saved for backward was changed in place",
    "Its version is not the one that the forward saved, so the gradient would be wrong. The line is the forward's.",
    "use the functional form of the in-place operation, or clone() before it",
)
register_code(
    "G004",
    AutogradError,
    "backward() of a tensor of several elements needs a gradient",
    "Only for a single element is there an obvious gradient to start from: 1.",
    "call .sum().backward() or .mean().backward(), or pass gradient=",
)
register_code(
    "G005",
    AutogradError,
    "A tensor does not require gradients",
    "It was computed from tensors none of which requires gradients, or under no_grad, or was detached.",
    "set requires_grad=True on the leaf before computing",
)
register_code(
    "G006",
    AutogradError,
    "In-place change of a view that autograd cannot follow",
    "The view is of a leaf that requires gradients, or was made under no_grad, or is one of several of one call.",
    "change the base, or clone() the view",
)
register_code(
    "G007",
    AutogradError,
    "A gradient does not fit its tensor",
    "A gradient must have its tensor's shape, dtype and device, and a Function one gradient per input.",
)
register_code(
    "G008",
    AutogradError,
    "The operator has no derivative rule",
    "It is not differentiable, or nobody has written its vjp.",
    "compute it under no_grad, on detach()ed inputs, or in a Function with a backward of its own",
)
register_code(
    "G009",
    AutogradError,
    "A tensor was not used to compute the outputs",
    "grad() was asked for a gradient with respect to a tensor that the outputs do not depend on.",
    "pass allow_unused=True to get None for it",
)
register_code(
    "G010",
    GradientWarning,
    ".grad of a tensor that is not a leaf",
    "Gradients accumulate on leaves only, so this is always None.",
    "call retain_grad() on the tensor before backward()",
)
register_code(
    "G011",
    AutogradError,
    "requires_grad of a tensor that is not a leaf",
    "Whether a computed tensor requires gradients follows from its inputs.",
    "use detach() to stop gradients",
)
register_code(
    "G012",
    AutogradError,
    "A tensor that requires gradients leaves autograd",
    "numpy, DLPack and deepcopy of a computed tensor would lose its history silently.",
    "call detach() first",
)
register_code(
    "G013",
    AutogradError,
    "Computed and numerical gradients differ",
    "gradcheck compares a vjp with finite differences in float64.",
    "check the vjp of the operators on the way; inputs near a kink or in float32 also differ",
)
register_code(
    "G014",
    AutogradError,
    "A loop of unknown length has no gradient",
    "while_loop would have to keep what every step is given, and does not know how many steps there will be.",
    "run it under no_grad, detach what it is given, or use scan",
)
register_code(
    "G015",
    AutogradError,
    "A gradient of a compiled function cannot be traced any more",
    "Which results have a gradient is known in the backward pass. A hook or a Function's backward that runs then for "
    "some results alone can read only what the function has read, and ask of sizes only what was asked before.",
    "use the other results in the loss as well, times 0, or run the function without compile",
)
register_code(
    "G016",
    AutogradError,
    "A compiled function sets the place in autograd of one of its inputs",
    "The input outlives the call, which would set `requires_grad`, keep a gradient or add a hook each time. On what "
    "the function computes these are fine.",
    "register the hook before the call, or on a view of the input, such as x.view_as(x), and use that instead",
)
register_code(
    "G017",
    AutogradError,
    "A compiled function differentiates what one of its arguments was computed from",
    "A backward pass inside of the function reached an argument that is no leaf. What computed it is not in the trace.",
    "compute the argument inside of the compiled function, or call backward() outside of it",
)

register_code(
    "G018",
    AutogradError,
    "A factorisation has no derivative in this mode",
    "A part of the factors that the derivative needs is not computed, or is not determined by the matrix.",
    "use the mode 'reduced', or full_matrices=False",
)

register_code(
    "G019",
    AutogradError,
    "Hooks for saved tensors are refused here",
    "The program is within `disable_saved_tensors_hooks`, whose message the error has.",
    "leave that scope first",
)

register_code(
    "G020",
    AutogradError,
    "A checkpointed function does not repeat itself",
    "The backward pass runs the function again. The second run saved other tensors for backward than the first, or "
    "called other operators: something that it reads has changed, such as a global, a mode or a random number.",
    "let the function depend on its arguments alone; debug=True shows the operators of both runs",
)

register_code(
    "G021",
    AutogradError,
    "A gradient is NaN",
    "Anomaly mode looks at each gradient. The error names the step of the backward pass, and the line of the forward "
    "pass that recorded it.",
    "look at the operands of that line: roots and logarithms of 0, and divisions by it, have such gradients",
)

register_code(
    "G022",
    NotSupportedError,
    "A backward pass that compiled autograd cannot compile",
    "While compiled autograd is on, a backward pass is read from the tape and compiled. Modes that see each operator, "
    "tensors of subclasses, and what a compiler of one graph refuses are no part of such a program.",
    "call backward() with compiled autograd off; the error lists four ways to turn it off",
)

register_code(
    "M001",
    OutOfMemoryError,
    "An allocation is too large",
    "The device has not that much memory, so nothing was allocated.",
)
register_code(
    "M002",
    ArgumentTypeError,
    "Memory that cannot be shared",
    "The array is read-only, unaligned, of foreign byte order, of negative stride, or of a dtype without counterpart.",
    "copy it first: rl.tensor(array)",
)
register_code(
    "M003",
    ExecutionError,
    "What another process sent is gone",
    "A tensor is sent as the descriptor of shared memory, which its sender hands out: that process has ended.",
    "keep the sender alive until what it sent was received",
)

register_code(
    "V001",
    DeviceError,
    "There is no such device",
    "Devices are named type or type:index, and each type is registered by a backend.",
)
register_code(
    "V002",
    DeviceError,
    "Operands live on different devices",
    "Operations never copy between devices on their own; a cpu tensor without dims is the exception.",
    "move one operand with .to(device)",
)
register_code(
    "V003",
    NotSupportedError,
    "A tensor without data",
    "Meta and fake tensors have shape, dtype and strides, but no elements to read or copy.",
    "use to_empty(device=...) to get a tensor with data",
)
register_code(
    "V004",
    DeviceError,
    "Memory that the host does not see",
    "Arrays, buffers and capsules share a tensor's memory, and that of a device has no addresses of the host's.",
    "copy it first: x.cpu()",
)
register_code(
    "V005",
    DeviceError,
    "A device leaves an operator to the CPU",
    "The device has no kernel for it: operands would be copied to the CPU and results back. rl.strict() forbids that.",
)
register_code(
    "V006",
    DeviceError,
    "A device's plug-in does not do what is asked of it",
    "It cannot be imported, has another name than its entry point, or gives something else than the interface says.",
)
register_code(
    "V007",
    DeviceWarning,
    "A device leaves an operator to the CPU",
    "The device has no kernel for it: operands are copied to the CPU and results back, at each call. The warning is "
    "given once for each operator; rl.backends.fallbacks() counts the calls.",
)
register_code(
    "V008",
    DeviceError,
    "A thread of an emulated GPU does what it must not",
    "It reads or writes outside of a buffer, or touches an element of shared memory that another thread of its block "
    "writes before the next barrier. On a GPU the result would depend on chance.",
    "this is a defect of the kernel's schedule: please report it",
)
register_code(
    "V009",
    DeviceError,
    "A device's driver is not here",
    "The package of a device is installed, but not what the system needs for it: a driver, and a device that it knows.",
    "install the driver, or leave the device out: rushlight doctor says what is missing",
)
register_code(
    "V010",
    DeviceError,
    "A device's driver refuses a call",
    "The driver's own words are among the values. After a fault of a kernel a driver refuses all later calls of the "
    "process.",
)

register_code(
    "R001",
    ExecutionError,
    "A kernel made a value that is not finite",
    "With RUSHLIGHT_NAN_ASSERTS=1 graphs run call by call, and each result is checked. The line is that of the first "
    "call that makes a NaN, or an infinity, from operands without.",
)
register_code(
    "R002",
    ExecutionError,
    "A check failed at run time",
    "A condition given to rl.check(), or assumed while compiling, did not hold. Nothing was written.",
)
register_code(
    "R003",
    FallbackError,
    "A fallback under rl.strict()",
    "The fast path was not available and a slower one would have been taken.",
)
register_code(
    "R005",
    ExecutionError,
    "A worker did not answer in time",
    "A DataLoader's worker needed longer for a batch than the loader's timeout allows.",
    "raise timeout=, or look for what blocks in the dataset",
)
register_code(
    "R006",
    ExecutionError,
    "Training has gone astray",
    "A loss or a gradient is NaN or infinite, and so would all that follow be.",
)
register_code(
    "R007",
    LinAlgError,
    "A matrix cannot be factored",
    "It is singular, not positive-definite, or an iteration for its eigenvalues does not converge, as with NaN in it.",
    "look at its condition number; the form with _ex returns info instead of failing",
)
