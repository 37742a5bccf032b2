"""Causes of the errors of dtypes and devices."""

import rushlight as rl
from errorcases import triggers


@triggers("D001")
def condition_is_not_bool():
    rl.where(rl.ones(3), 1.0, 0.0)


@triggers("D001", "bitwise")
def bits_of_a_float():
    rl.ones(3) & rl.ones(3)


@triggers("D002")
def factors_differ_in_dtype():
    rl.ones(2, 2) @ rl.ones(2, 2, dtype=rl.float64)


@triggers("D003")
def quotient_does_not_fit_integers():
    rl.arange(3).div_(2)


@triggers("D003", "out")
def out_holds_integers():
    rl.add(rl.ones(3), 0.5, out=rl.zeros(3, dtype=rl.int64))


@triggers("D004")
def text_is_not_a_dtype():
    rl.zeros(3, dtype="float33")


@triggers("D005")
def integers_have_no_gradient():
    rl.tensor([1, 2, 3], requires_grad=True)


@triggers("D005", "assigned")
def integers_get_no_gradient_later():
    rl.arange(3).requires_grad = True


@triggers("D006")
def error_function_of_complex():
    rl.tensor([1 + 2j]).erf()


@triggers("D007")
def number_is_too_large():
    rl.tensor([300], dtype=rl.uint8)


@triggers("D007", "fill")
def number_to_fill_with_is_too_large():
    rl.zeros(2, dtype=rl.uint8).fill_(300)


@triggers("D007", "compiled")
def number_known_when_the_function_runs_is_too_large():
    fill = rl.compile(lambda x, number: x.fill_(number))
    fill(rl.zeros(2, dtype=rl.uint8), 3)
    fill(rl.zeros(2, dtype=rl.uint8), 300)


@triggers("D007", "int64")
def number_is_beyond_int64():
    rl.tensor([2**70])


@triggers("V001")
def device_has_no_backend():
    rl.zeros(3, device="tpu")


@triggers("V001", "number")
def number_is_not_a_device():
    rl.zeros(3).to(device=2.5)


@triggers("V002")
def operands_on_two_devices():
    rl.ones(3) + rl.ones(3, device="meta")


@triggers("V003")
def meta_tensor_has_no_values():
    rl.ones(3, device="meta").tolist()


@triggers("V003", "compiled")
def meta_tensor_is_an_argument_of_a_compiled_function():
    rl.compile(rl.relu, fullgraph=True)(rl.ones(3, device="meta"))


@triggers("V003", "moved")
def meta_tensor_cannot_be_moved():
    rl.ones(3, device="meta").to("cpu")


@triggers("V001", "index")
def index_of_a_device_is_a_word():
    rl.zeros(3, device="cpu:first")


@triggers("D002", "layer")
def layer_is_for_floats():
    rl.nn.Linear(2, 2)(rl.ones(2, 2, dtype=rl.int64))
