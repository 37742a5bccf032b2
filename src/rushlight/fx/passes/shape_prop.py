"""What a graph's values are like, found by running it."""

from __future__ import annotations

from typing import NamedTuple

from rushlight.eager.tensor import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Argument, Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Argument
    dtype: Argument
    requires_grad: bool
    stride: tuple[int, ...]


class ShapeProp(Interpreter):
    """Runs a module and notes what each node gives: `node.meta["tensor_meta"]` and `node.meta["type"]`.

    rl.fx.passes.shape_prop.ShapeProp(module).propagate(rl.ones(2, 3))
    """

    def run_node(self, n: Node) -> Argument:
        """Run a node, and note what it gives."""
        result = super().run_node(n)
        found: list[Tensor] = []

        def described(leaf: object) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            found.append(leaf)
            return TensorMetadata(leaf.shape, leaf.dtype, leaf.requires_grad, tuple(leaf.stride()))

        described_result = map_aggregate(result, described)
        if found:
            n.meta["tensor_meta"] = described_result
        n.meta.setdefault("type", type(result))
        return result

    def propagate(self, *args: Argument) -> Argument:
        """Run the module on arguments."""
        return self.run(*args)
