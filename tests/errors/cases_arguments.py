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


@triggers("A005")
def rows_differ_in_length():
    rl.tensor([[1, 2, 3], [4, 5]])


@triggers("A006")
def optimizer_cannot_be_differentiated():
    optim.Adam([rl.zeros(2, requires_grad=True)], differentiable=True)


@triggers("A006", "width")
def view_of_another_width():
    rl.ones(3).view(rl.int8)


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
