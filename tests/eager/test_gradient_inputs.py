"""What `grad` takes, and where gradients start."""

import rushlight as rl


def test_integers_take_what_has_a_gradient():
    """A write to integers is no part of the tape, through a view of the bytes of floats as well."""
    x = rl.ones(2).requires_grad_()
    whole = rl.tensor([5, 5])
    whole.copy_(x * 3)
    assert whole.tolist() == [3, 3]
    assert not whole.requires_grad


def test_gradients_of_any_iterable_of_inputs():
    layer = rl.nn.Linear(2, 2)
    loss = layer(rl.ones(2)).sum()
    wanted = rl.autograd.grad(loss, [*layer.parameters()], retain_graph=True)
    for inputs in (layer.parameters(), dict(layer.named_parameters()).values(), iter([*layer.parameters()])):
        found = rl.autograd.grad(loss, inputs, retain_graph=True)
        assert [one.tolist() for one in found] == [one.tolist() for one in wanted]
