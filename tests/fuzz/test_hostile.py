"""Calls with hostile arguments give a value or a registered error; the child survives crashes and hangs of others."""

from collections import Counter

import pytest

import rushlight as rl
from rushlight.eager.boundary import checked, misuse
from rushlight.support.errors import RushlightError
from tools.fuzz import hostile
from tools.fuzz.child import Child

CALLS = 300


@pytest.fixture(scope="module", autouse=True)
def _child():
    yield
    hostile._child.close()


def test_hostile_calls_end_in_values_or_registered_errors():
    skipped: Counter[str] = Counter()
    found = [hostile.judge(hostile.generate(11, number), skipped) for number in range(CALLS)]
    assert not [str(one) for one in found if one is not None]
    assert skipped["coded"] > CALLS / 4 and skipped["value"] > CALLS / 10


def test_a_call_is_the_same_each_time():
    assert hostile.generate(3, 4).text == hostile.generate(3, 4).text != hostile.generate(3, 5).text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torch.relu(none())", "coded"),
        ("torch.relu(vector())", "value"),
        ("torch.relu()", "binding"),
        ("vector() + text()", "binding"),
        ("torch.sort(int_class())", "coded"),
    ],
)
def test_outcomes_are_told_apart(text, kind):
    assert hostile._child.ask({"number": 0, "text": text})["kind"] == kind


# By class: dims of tensors without any, numbers where a tensor belongs, truth of what has none, no ints and no dicts.
FOUND = {
    "coded": (
        "big_scalar().unflatten(0, int62())",
        "int_scalar().unbind()",
        "torch.slice_scatter(scalar(), scalar())",
        "no_columns().take_along_dim(sixty())",
        "torch.equal(leaf(), huge_float())",
        "torch.full_like(vector(), image())",
        "torch.normal(1, 2)",
        "ints().new_empty((0, 1), device=texts())",
        "F.max_pool2d(image(), 2, return_indices=frozen_array())",
        "F.dropout(vector(), p=odd_dictionary())",
        "vector().quantile(complex_number())",
        "torch.stack(odd_dictionary())",
        "torch.autograd.gradcheck(int63(), leaf())",
        "torch.set_float32_matmul_precision(records())",
        "F.glu(vector(), dim=1)",
        "torch.Generator(broken_attributes())",
        "optim.AdamW([parameter()]).load_state_dict(broken_length())",
        "torch.autograd.gradcheck(torch.relu, inner(), eps=numpy_dtype())",
        "torch.autograd.grad(0, broken_hash(), is_grads_batched=numpy_array())",
        "torch.autograd.backward(empty_list(), inputs=1)",
        "torch.split(matrix(), records())",
        "torch.arange(broken_index())",
        "torch.arange(huge_float(), end=device_text())",
        "F.elu(leaf(), alpha=text_index())",
        "F.normalize(vector(), dim=0, out=records())",
        "F.pad(ints(), (1, 1), value=nan())",
        "F.scaled_dot_product_attention(ten_dims(), leaf(), matrix(), enable_gqa=True)",
        "nn.Conv2d(fair_index(), -1, 0)",
        "nn.GroupNorm(0, -1)",
        "nn.utils.clip_grad_value_([parameter()], complex_number())",
        "nn.utils.parameters_to_vector(broken_iterator())",
        "nn.utils.parameters_to_vector(broken_length())",
        "entered(torch.set_grad_enabled(swapped()))",
        "optim.lr_scheduler.MultiStepLR(optim.SGD([parameter()], lr=0.1), ragged())",
        "optim.lr_scheduler.MultiStepLR(complexes(), broken_length())",
        "torch.asarray(0, copy=swapped())",
        "torch.set_float32_matmul_precision(deeper())",
        "F.nll_loss(vector(), sixty())",
        "nn.ParameterDict(parameters=odd_dictionary())",
        "vector()[true(), slice_huge()]",
        "torch.device(broken_text(), 0)",
        "torch.normal(scalar(), dtype=broken_length())",
        "torch.randint(square(), 2, 1)",
        "module().load_state_dict(odd_dictionary())",
        "leaf().to(dtype=None, copy=texts())",
        "nn.Upsample(scale_factor=complex_number())",
        "F.upsample(image(), size=scalar())",
        "transposed().set_(source=leaf(), size=(0, 1), stride=2)",
        "nn.LSTM(2, 0)",
        "torch.Tensor(broken_attributes())",
        "F.leaky_relu(square(), negative_slope=complex_number())",
        "nn.utils.vector_to_parameters(far_indices(), objects())",
        "nn.ModuleList(modules=texts())",
        "halves().sub_(int63(), alpha=leaf())",
        "vector().bernoulli(scalar(), generator=ints())",
        "torch.broadcast_tensors(inner(), [matrix(), matrix()])",
        "torch.take_along_dim(scalar(), minus_googol(), dim=0)",
        "meta_scalar().repeat_interleave(no_columns(), dim=0)",
        "[compiled(vector(), 3), compiled(vector(), googol())]",
        "nn.LazyInstanceNorm2d(2, 2, 2)(meta_scalar())",
        "nn.DataParallel(2)(tensor_list())",
        "F.pad(vector(), (1, 1), numpy_array())",
        "optim.lr_scheduler.LambdaLR(optim.SGD([parameter()], lr=0.1), 2)",
        "optim.LBFGS([parameter()]).step(none)",
        "nn.utils.convert_conv2d_weight_memory_format(empty_list(), 0)",
        "optim.lr_scheduler.SequentialLR(optim.SGD([parameter()], lr=0.1), numpy_dtype(), empty_list())",
        "optim.Adagrad(module().parameters(), eps=complex_number())",
        "torch.randint_like(vector(), 1, minus_three(), device=numpy_array())",
        "nn.init.dirac_(cube(), groups=0)",
        "torch.histogramdd(image(), 2, range=broken_length(), density=True)",
        "nn.LazyConv3d(2, 2)(fair_index(), terabyte())",
        "nn.init.sparse_(matrix(), nan())",
        "nn.utils.skip_init(broken_text(), size())",
        "torch.linalg.norm(vector(), broken_text())",
        "torch.load(broken_text())",
        "torch.func.functional_call(broken_text(), {}, ())",
        "F.interpolate(image(), scale_factor=nan())",
        "optim.ASGD([parameter()], t0=nan())",
        "optim.lr_scheduler.CosineAnnealingWarmRestarts(optim.SGD([parameter()], lr=0.1), 3).step(infinite())",
        "scalar().nonzero_static(size=big_scalar(), fill_value=1)",
        "no_columns().expand(0, googol())",
        "doubles().histogram(none(), density=True)",
    ),
    "value": (
        "compiled(scalar(), meta())",
        "compiled(meta())",
        "nn.init.kaiming_uniform_(image(), a=huge_float())",
        "vector().type()",
        "torch.typename(broken_attributes())",
        "F.leaky_relu(square(), negative_slope=int_scalar())",
        "optim.lr_scheduler.OneCycleLR(optim.SGD([parameter()], lr=0.1), numpy_int(), total_steps=60)",
        "nn.LayerNorm(numpy_int())",
        "optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([parameter()], lr=0.1), min_lr=numpy_float())",
        "leaf().allclose(leaf(), rtol=numpy_bool())",
        "torch.multinomial(square() + 1, numpy_int())",
        "torch.broadcast_shapes(fair_index())",
        "torch.split(matrix(), fair_index())",
        "vector().round(decimals=sixty() * 6)",
        "torch.triu_indices(int62(), 4)",
        "torch.polygamma(int62(), vector())",
        "F.max_pool1d(leaf(), [numpy_int()])",
        "F.max_pool1d(matrix(), 2, ceil_mode=numpy_bool())",
        "F.max_pool1d(leaf(), int_scalar())",
        "F.max_pool2d_with_indices(image(), (numpy_int(), numpy_int()))",
        "torch.sparse_coo_tensor(size=numpy_int())",
    ),
    "binding": (
        "compiled([1], half())",
        "compiled(broken_attributes(), n=numpy_float())",
        "[compiled(vector()), compiled(plain())]",
        "compiled(none(), 2)",
        "[compiled('a', 2), compiled(records())]",
        "[compiled(vector()), compiled(broken_items())]",
        "optim.lr_scheduler.LambdaLR(optim.SGD([parameter()], lr=0.1), some_function())",
    ),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in FOUND.items() for text in texts])
def test_what_was_found_stays_mended(kind, text):
    assert hostile._child.ask({"number": 0, "text": text})["kind"] == kind


def test_crashes_and_hangs_are_answers():
    child = Child("tools.fuzz.calling", patience_seconds=20.0)
    assert child.ask({"number": 0, "text": "__import__('os')._exit(3)"})["kind"] == "crash"
    child.patience_seconds = 1.0
    assert child.ask({"number": 0, "text": "__import__('time').sleep(60)"})["kind"] == "hang"
    child.patience_seconds = 60.0
    assert child.ask({"number": 0, "text": "torch.relu(vector())"})["kind"] == "value"
    child.close()


def test_our_own_mistakes_are_not_blamed_on_arguments():
    @checked
    def broken(input: rl.Tensor, count: int) -> object:
        return input.no_such_thing if count else {}["key"]

    with pytest.raises(KeyError) as caught:
        broken(rl.ones(1), 0)
    assert not isinstance(caught.value, RushlightError)
    with pytest.raises(RushlightError) as error:
        broken("text", 0)
    assert error.value.code == "A001" and isinstance(error.value.__cause__, KeyError)
    assert misuse(broken, (rl.ones(1), 2), {}, "broken") is None


def test_a_users_layer_raises_what_it_raises():
    class Own(rl.nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.table = {}[size]

    class Fails(rl.nn.Module):
        def forward(self, input):
            return input["key"]

    for function in (lambda: Own("a"), lambda: Fails()({})):
        with pytest.raises(KeyError) as caught:
            function()
        assert not isinstance(caught.value, RushlightError)
