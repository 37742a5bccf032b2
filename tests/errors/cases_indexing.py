"""Causes of the errors of indices and dims."""

import rushlight as rl
from errorcases import triggers
from rushlight.nn import functional


@triggers("I001")
def row_does_not_exist():
    rl.ones(2, 3)[5]


@triggers("I001", "values")
def index_tensor_is_out_of_range():
    functional.embedding(rl.tensor([1, 9]), rl.ones(4, 2))


@triggers("I002")
def dim_does_not_exist():
    rl.ones(2, 3).sum(dim=2)


@triggers("I003")
def more_indices_than_dims():
    rl.ones(2, 3)[0, 1, 2]


@triggers("I004")
def text_is_not_an_index():
    rl.ones(2, 3)["first"]


@triggers("I004", "float")
def float_tensor_is_not_an_index():
    rl.ones(2, 3)[rl.tensor([0.0, 1.0])]


@triggers("I005")
def mask_has_another_shape():
    rl.ones(2, 3)[rl.tensor([True, False, True])]


@triggers("I009")
def indices_do_not_broadcast():
    rl.ones(4, 4)[[0, 1], [0, 1, 2]]


@triggers("I006")
def dim_is_named_twice():
    rl.ones(2, 3).sum(dim=(0, -2))


@triggers("I006", "permute")
def permutation_names_a_dim_twice():
    rl.ones(2, 3).permute(0, 0)


@triggers("I007")
def largest_of_nothing():
    rl.zeros(0).max()


@triggers("I008")
def slice_runs_backwards():
    rl.arange(5)[::-1]


@triggers("I001", "assigned")
def assigned_row_does_not_exist():
    rl.ones(2, 3)[5] = 1.0


@triggers("I001", "classes")
def class_does_not_exist():
    functional.cross_entropy(rl.ones(3, 4), rl.tensor([0, 1, 7]))


@triggers("I002", "largest")
def dim_of_the_largest_does_not_exist():
    rl.ones(2, 3).max(dim=2)


@triggers("I001", "compiled")
def row_does_not_exist_in_a_compiled_function():
    @rl.compile
    def sixth(x):
        return x[5]

    sixth(rl.ones(2, 3))
