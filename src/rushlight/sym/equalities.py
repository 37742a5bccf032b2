"""What symbols are known to equal: a union-find whose representatives are expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rushlight.sym.expr import SYMBOL, Size, SizeExpr, below, terms
from rushlight.sym.query import bottom_up, rebuild


class Equalities:
    """Symbols with what replaces them.

    Resolving is memoised on every node it visits, and the memo is emptied when a symbol that it has read is replaced.
    """

    def __init__(self) -> None:
        self.images: dict[SizeExpr, Size] = {}
        self._resolved: dict[SizeExpr, Size] = {}

    def copy(self) -> Equalities:
        """The same equalities, which learn by themselves from now on."""
        other = Equalities()
        other.images.update(self.images)
        return other

    def resolve(self, e: Size) -> Size:
        """Replaces symbols of `e` by what they are known to equal until none is left to replace."""
        images, memo = self.images, self._resolved
        if isinstance(e, int) or not images:
            return e
        if e in memo:
            return memo[e]
        if e.count <= 2 and all(symbol.op is SYMBOL and symbol not in images for symbol, _ in terms(e)):
            return e  # past the memo, which may stay as it is when one of these symbols is replaced
        for node in bottom_up(e, known=memo, into=self._before):
            if node.op is not SYMBOL:
                memo[node] = rebuilt(node, memo.__getitem__)
            elif node in images:
                image = images[node]
                images[node] = memo[node] = image if isinstance(image, int) else memo[image]
            else:
                memo[node] = node
        return memo[e]

    def _before(self, node: SizeExpr) -> Iterable[SizeExpr]:
        if node.op is not SYMBOL:
            return below(node)
        image = self.images.get(node)
        return () if image is None or isinstance(image, int) else (image,)

    def replace(self, symbol: SizeExpr, image: Size) -> None:
        """Takes `symbol` to equal `image`, which is resolved and does not contain it."""
        self.images[symbol] = image
        if symbol in self._resolved:
            self._resolved.clear()


def rebuilt(e: SizeExpr, image: Callable[[SizeExpr], Size]) -> Size:
    """`rebuild`, and itself where that would divide by 0."""
    try:
        return rebuild(e, image)
    except ZeroDivisionError:
        return e  # a quotient by a size that turned out to be 0 is never computed
