"""Causes of the errors of gradients."""

import copy

import rushlight as rl
from errorcases import triggers
from rushlight.autograd import Function, gradcheck, once_differentiable


def leaf(*sizes: int, dtype: rl.dtype = rl.float32) -> rl.Tensor:
    return rl.ones(*sizes, dtype=dtype, requires_grad=True)


@triggers("G001")
def backward_runs_twice():
    loss = leaf(3).exp().sum()
    loss.backward()
    loss.backward()


@triggers("G002")
def leaf_is_changed_in_place():
    leaf(3).add_(1)


@triggers("G003")
def saved_result_is_changed():
    result = leaf(3).exp()
    result.add_(1)
    result.sum().backward()


@triggers("G004")
def several_elements_have_no_obvious_gradient():
    (leaf(3) * 2).backward()


@triggers("G005")
def loss_does_not_require_gradients():
    rl.ones(3).sum().backward()


@triggers("G005", "input")
def input_does_not_require_gradients():
    x = rl.ones(3)
    rl.autograd.grad((leaf(3) * x).sum(), x)


@triggers("G006")
def view_of_a_leaf_is_changed():
    leaf(3)[0].zero_()


@triggers("G007")
def gradient_has_another_shape():
    (leaf(3) * 2).backward(rl.ones(4))


class Forgetful(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@triggers("G007", "function")
def function_returns_too_few_gradients():
    Forgetful.apply(leaf(3), leaf(3)).sum().backward()


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * 3


@triggers("G008")
def second_derivative_has_no_rule():
    x = leaf(3)
    (first,) = rl.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
    first.sum().backward()


@triggers("G009")
def tensor_was_not_used():
    rl.autograd.grad(leaf(3).sum(), leaf(3))


@triggers("G010")
def grad_of_a_computed_tensor():
    result = leaf(3) * 2
    result.sum().backward()
    assert result.grad is None


@triggers("G011")
def computed_tensor_cannot_stop():
    (leaf(3) * 2).requires_grad = False


@triggers("G012")
def numpy_would_lose_the_history():
    (leaf(3) * 2).numpy()


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@triggers("G013")
def backward_is_wrong():
    gradcheck(Wrong.apply, (leaf(2, dtype=rl.float64),))


@triggers("G002", "zero")
def leaf_is_zeroed():
    leaf(3).zero_()


@triggers("G003", "operand")
def saved_operand_is_changed():
    x, y = leaf(3) * 2, leaf(3)
    product = x * y
    x.mul_(2)
    product.sum().backward()


@triggers("G012", "copy")
def copy_would_lose_the_history():
    copy.deepcopy(leaf(3) * 2)


@triggers("G014")
def gradient_of_a_loop_of_unknown_length():
    w = rl.ones(3, requires_grad=True)
    (found,) = rl.while_loop(lambda x: x.sum() < 10, lambda x: (x + w,), (w * 1,))
    found.sum().backward()


@triggers("G015")
def a_backward_reads_more_when_only_some_results_have_gradients():
    factor = rl.full((3,), 2.0)

    class Both(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            return first * factor if second is None else first + second

    rl.compile(lambda x: Both.apply(x), fullgraph=True)(rl.ones(3, requires_grad=True))[0].sum().backward()


@triggers("G016")
def a_hook_is_registered_on_an_input():
    def double(x):
        x.register_hook(lambda gradient: gradient * 0.5)
        return x * 2

    rl.compile(double, fullgraph=True)(rl.ones(3, requires_grad=True))


@triggers("A001", "hook")
def a_hook_returns_text():
    x = rl.ones(3, requires_grad=True)
    x.register_hook(lambda gradient: "doubled")
    (x * 2).sum().backward()


@triggers("G007", "hook")
def a_hook_returns_part_of_a_gradient():
    x = rl.ones(3, requires_grad=True)
    x.register_hook(lambda gradient: gradient[:1])
    (x * 2).sum().backward()


@triggers("G017")
def a_backward_pass_inside_reaches_what_computed_an_argument():
    def step(hidden):
        (hidden * hidden).sum().backward()

    rl.compile(step, fullgraph=True)(rl.ones(3, requires_grad=True) * 2)


@triggers("G018")
def a_gradient_of_r_alone_is_asked():
    rl.linalg.qr(leaf(3, 2), mode="r").R.sum().backward()


@triggers("R007")
def a_singular_matrix_is_inverted():
    rl.linalg.inv(rl.zeros(2, 2))


@triggers("G019")
def hooks_for_saved_tensors_are_disabled():
    graph = rl.autograd.graph
    with graph.disable_saved_tensors_hooks("this part keeps its own tensors"), graph.save_on_cpu():
        pass


@triggers("G020")
def a_checkpointed_function_depends_on_a_global():
    sizes = iter([3, 2])

    def function(x):
        return (x[: next(sizes)] * 2).sin()

    rl.utils.checkpoint.checkpoint(function, leaf(3), use_reentrant=False).sum().backward()


@triggers("G021")
def a_root_of_zero_is_differentiated():
    with rl.autograd.detect_anomaly():
        (rl.zeros(2, requires_grad=True).sqrt() * 0).sum().backward()


@triggers("G022")
def a_mode_watches_a_compiled_backward_pass():
    class Watching(rl.autograd.graph.TorchDispatchMode):
        pass

    loss = leaf(3).sin().sum()
    with rl.compiler.compiled_autograd.enable(), Watching():
        loss.backward()
