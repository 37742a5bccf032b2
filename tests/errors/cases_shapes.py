"""Causes of the errors of shapes."""

import rushlight as rl
from errorcases import triggers
from rushlight.nn import functional


@triggers("S001")
def shapes_do_not_broadcast():
    rl.ones(2, 3) + rl.ones(4)


@triggers("S001", "in-place")
def operand_is_larger_in_the_front():
    rl.ones(2, 3).mul_(rl.ones(5, 3))


@triggers("S002")
def matrix_has_three_dims():
    rl.mm(rl.ones(2, 3, 4), rl.ones(4, 5))


@triggers("S002", "permute")
def permutation_is_too_short():
    rl.ones(2, 3, 4).permute(1, 0)


@triggers("S003")
def inner_sizes_differ():
    rl.ones(8, 16) @ rl.ones(32, 4)


@triggers("S003", "linear")
def layer_is_for_other_features():
    rl.nn.Linear(16, 4)(rl.ones(8, 12))


@triggers("S004")
def reshape_loses_elements():
    rl.ones(2, 3).reshape(4, 2)


@triggers("S004", "open")
def two_sizes_are_open():
    rl.ones(2, 3).view(-1, -1)


@triggers("S005")
def joined_tensors_differ():
    rl.cat([rl.ones(2, 3), rl.ones(2, 4)])


@triggers("S005", "stack")
def stacked_tensors_differ():
    rl.stack([rl.ones(2), rl.ones(3)])


@triggers("S006")
def transposed_tensor_has_no_flat_view():
    rl.ones(2, 3).t().view(6)


@triggers("S007")
def size_is_negative():
    rl.zeros(2, -3)


@triggers("S008")
def only_sizes_of_one_expand():
    rl.ones(2, 3).expand(4, 3)


@triggers("S009")
def target_is_too_small():
    rl.ones(3).add_(rl.ones(2, 3))


@triggers("S009", "out")
def out_has_another_shape():
    rl.add(rl.ones(3), rl.ones(3), out=rl.zeros(4))


@triggers("S010")
def parts_do_not_add_up():
    rl.split(rl.ones(10), (3, 4))


@triggers("S011")
def kernel_is_larger_than_the_image():
    functional.conv2d(rl.ones(1, 1, 3, 3), rl.ones(1, 1, 5, 5))


@triggers("S011", "pool")
def pool_is_larger_than_the_image():
    functional.max_pool2d(rl.ones(1, 1, 3, 3), 5)


@triggers("S012")
def view_leaves_the_storage():
    rl.ones(4).as_strided((3, 3), (3, 1))


@triggers("S013")
def written_elements_overlap():
    rl.ones(1).expand(3).add_(1)


@triggers("S014")
def bias_does_not_fit():
    functional.linear(rl.ones(2, 3), rl.ones(4, 3), rl.ones(5))


@triggers("S014", "target")
def one_class_for_each_row_is_needed():
    functional.cross_entropy(rl.ones(4, 10), rl.zeros(5, dtype=rl.int64))


@triggers("S015")
def truth_of_several_elements():
    if rl.ones(3) > 0:
        pass


@triggers("S015", "item")
def item_of_several_elements():
    rl.ones(3).item()


@triggers("S009", "fill")
def fill_takes_one_value():
    rl.ones(3).fill_(rl.ones(4))


@triggers("S009", "assignment")
def assigned_rows_do_not_fit():
    x = rl.ones(3, 2)
    x[0:2] = rl.ones(3, 2)


@triggers("S001", "loss")
def loss_of_other_targets():
    functional.mse_loss(rl.ones(3), rl.ones(4))
