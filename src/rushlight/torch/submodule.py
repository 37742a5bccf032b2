"""Small modules that live in the file of their parent, such as `torch.backends.cudnn`."""

from __future__ import annotations


class Submodule:
    """The names of a module, given as keywords; `purpose` is its docstring.

    ```python
    cudnn = Submodule("Flags of a library that is not used.", enabled=False, benchmark=False)
    ```
    """

    def __init__(self, purpose: str, **names: object) -> None:
        self.__dict__.update(names)
        self.__doc__ = purpose
        self.__all__ = sorted(names)
