"""The names of the package that are loaded when they are first asked for."""

from importlib import import_module

from rushlight.compat import layers
from rushlight.compat.elsewhere import ELSEWHERE


def test_names_are_where_they_are_said_to_be():
    assert [name for name, module in ELSEWHERE.items() if not hasattr(import_module(module), name)] == []


def test_the_list_of_layers_for_imports_is_that_for_types():
    """It stands twice: the type checker reads the module's own, and the package is imported without the module."""
    assert [name for name, module in ELSEWHERE.items() if module == layers.__name__] == layers.__all__
