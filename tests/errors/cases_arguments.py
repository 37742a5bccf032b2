"""Causes of the errors of arguments."""

import numpy as np

import rushlight as rl
from errorcases import triggers
from rushlight import optim
from rushlight.utils.data import TensorDataset


@triggers("A001")
def operand_is_text():
    rl.add(rl.ones(3), "1")


@triggers("A001", "length")
def tensor_without_dims_has_no_length():
    len(rl.tensor(1.0))


@triggers("A003")
def range_is_missing():
    rl.randint(3)


@triggers("A003", "dataset")
def dataset_of_nothing():
    TensorDataset()


@triggers("A001", "input")
def function_gets_no_tensor():
    rl.std("rows")


@triggers("A001", "alone")
def view_of_a_number():
    rl.detach(2.0)


@triggers("A001", "bool")
def switch_is_an_int():
    rl.ones(3).sum(0, keepdim=1)


@triggers("A001", "dim")
def dim_is_a_bool():
    rl.ones(3).sum(True)


@triggers("A001", "forward")
def layer_gets_text():
    rl.nn.Upsample(scale_factor=2)("rows")


@triggers("A001", "construction")
def rate_is_text():
    optim.SGD([rl.zeros(2, requires_grad=True)], lr="fast")


@triggers("A005", "cyclic")
def list_contains_itself():
    endless = [1]
    endless.append(endless)
    rl.tensor(endless)


@triggers("M001", "product")
def sizes_multiply_beyond_64_bits():
    rl.zeros(1 << 62, 1 << 62)


@triggers("A001", "format")
def format_of_several_elements():
    format(rl.ones(2), ".2f")


@triggers("A001", "legacy")
def constructor_gets_a_number():
    rl.Tensor(2.5)


@triggers("A002", "type")
def type_is_no_name():
    rl.ones(1).type("torch.double")


@triggers("A003", "keyword")
def keyword_is_mistaken():
    rl.empty(2, dtyp=rl.int64)


@triggers("A003", "twice")
def size_is_given_twice():
    rl.zeros(2, size=(2,))


@triggers("V001", "cuda")
def tensor_goes_to_a_device_that_is_not_there():
    rl.ones(1).cuda()


@triggers("A005")
def rows_differ_in_length():
    rl.tensor([[1, 2, 3], [4, 5]])


@triggers("A006")
def optimizer_cannot_be_differentiated():
    optim.Adam([rl.zeros(2, requires_grad=True)], differentiable=True)


@triggers("A006", "bytes")
def write_to_the_bytes_of_bools():
    def negate(x):
        x.view(rl.uint8).zero_()

    rl.compile(negate, fullgraph=True)(rl.ones(3, dtype=rl.bool))


@triggers("A001", "int")
def dim_is_text():
    rl.ones(3).sum("rows")


@triggers("A001", "layer")
def layer_gets_an_array():
    rl.nn.Linear(3, 2)(np.ones(3))


@triggers("A002", "step")
def range_does_not_move():
    rl.arange(0, 10, 0)


@triggers("A002", "endless")
def range_has_no_end():
    rl.arange(float("inf"))


@triggers("A001", "list")
def operand_is_a_list():
    rl.relu([1.0, -1.0])


@triggers("A001", "size")
def size_of_a_layer_is_text():
    rl.nn.Linear("3", 2)
