"""Modules in notebooks."""

from rushlight import nn


class Odd(nn.Module):
    """A module whose arguments need escaping."""

    def extra_repr(self) -> str:
        return "a < b"


def test_a_tree_with_the_parameters_below_each_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    page = model._repr_html_()
    assert page.startswith("<details open><summary>Sequential() <small>24 parameters</small></summary>")
    assert "<summary>(0): Linear(in_features=3, out_features=4, bias=True) <small>16 parameters</small>" in page
    assert "<li>weight <small>float32 [4, 3]</small></li>" in page
    assert "<li>running_mean <small>float32 [4]</small></li>" in page
    assert "<li>(2): ReLU() <small>0 parameters</small></li>" in page
    assert page.count("<details") == page.count("</details>") == 3


def test_a_shared_parameter_counts_once():
    layer = nn.Linear(2, 2)
    assert "Sequential() <small>6 parameters" in nn.Sequential(layer, layer)._repr_html_()


def test_text_is_escaped():
    assert Odd()._repr_html_() == "Odd(a &lt; b) <small>0 parameters</small>"


def test_lazy_modules_have_no_sizes_yet():
    page = nn.Sequential(nn.LazyLinear(4))._repr_html_()
    assert "<li>weight <small>not initialised</small></li>" in page
