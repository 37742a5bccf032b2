"""Nodes of operators: what a call saves, and how its gradients are computed from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.derive import DerivativePlan, Rule, derivative_plan, gradients_by_calls, uses_data
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import Node, class_named
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.dispatch import STATE, Key, Memo, bit, keys_of
from rushlight.eager.execution.operands import PLAIN, attribute_key, flatten, form_key, structure_of
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.support.errors import fail

# Keys that let a rule run as one program: anyone else wants to see its calls.
_ALONE = bit(Key.CPU) | bit(Key.AUTOGRAD)


def needed_of(flat: Sequence[object]) -> tuple[bool, ...]:
    """For each tensor or number, whether a gradient is wanted."""
    needed: list[bool] = []
    for operand in flat:
        needed.append(isinstance(operand, Handle) and operand.keys & AUTOGRAD != 0 and requires(operand))
    return tuple(needed)


def runs_alone(flat: Sequence[object]) -> bool:
    """Whether a rule on these values may run as one program."""
    keys = keys_of(tuple(flat)) | STATE.included
    return not keys & ~_ALONE & ~STATE.excluded and keys & bit(Key.CPU) != 0


def title(name: str) -> str:
    """PyTorch's way of naming nodes: `log_softmax` becomes `LogSoftmax`."""
    return "".join([part[:1].upper() + part[1:] for part in name.split("_")])


class Recipe:
    """What calls of one kind save: made once per operator, attributes and forms.

    `sources` says for each tensor that the rule needs where it is found (a result or an operand, and its number), and
    whether its elements are read, or each member's of a list. `saved` is what a call saves but for the places that
    `differing` lists, which differ from call to call: all else is forms, which are the same.
    """

    __slots__ = ("attrs", "differing", "forms", "key", "needed", "rule", "saved", "sources", "structure", "wanted")

    sources: tuple[tuple[bool, int, Any], ...]

    def __init__(
        self,
        rule: Rule,
        operands: tuple[object, ...],
        attrs: Mapping[str, object],
        needed: tuple[bool, ...],
        forms: Sequence[TensorMeta],
    ) -> None:
        self.rule = rule = rule.for_results(len(forms))
        self.attrs = {name: attrs[name] for name in rule.needs if name in attrs}
        self.needed = needed
        self.structure = structure_of(operands)
        self.forms = tuple(forms)
        self.key = (rule.owner, attribute_key(self.attrs), self.structure, needed)
        places = {name: (True, at) for at, name in enumerate(rule.results)}
        places |= {name: (False, at) for at, name in enumerate(rule.operands)}
        missing = [places[name] for name in rule.needs if name not in self.attrs]
        values = [forms[at] if is_result else operands[at] for is_result, at in missing]
        used = iter(uses_data(rule, self.attrs, self.structure, needed, self.forms, values))
        self.sources = tuple(
            [
                (is_result, at, tuple([element is not None and next(used) for element in value]))
                if isinstance(value, tuple)
                else (is_result, at, value is not None and next(used))
                for (is_result, at), value in zip(missing, values, strict=True)
            ]
        )

        self.saved = [_forms_of(value, used) for value, (_, _, used) in zip(values, self.sources, strict=True)]
        self.differing = tuple([at for at, value in enumerate(values) if value is not None and self.saved[at] is None])
        self.wanted = tuple([at for at, wanted in enumerate(needed) if wanted])

    def reads_operand(self, number: int) -> bool:
        """Whether the elements of an operand are read."""
        return any(used is True and at == number and not is_result for is_result, at, used in self.sources)


_MOST_RECIPES = 1 << 13
_OURS = 3  # frames of this package above the user's, at least: two constructors, and who calls them
_recipes: Memo[Recipe] = Memo(_MOST_RECIPES)


def recipe_for(
    op: object,
    rule: Rule,
    operands: tuple[object, ...],
    attrs: Mapping[str, object],
    needed: tuple[bool, ...],
    results: Sequence[Handle],
) -> Recipe:
    """The recipe of a call."""
    parts: list[Any] = [op, needed, attribute_key(attrs)] if attrs else [op, needed]
    for result in results:
        parts.append(result.form)
    for operand in operands:
        if isinstance(operand, Handle):
            parts.append(operand.form)
        else:
            kind = operand.__class__
            parts.append(kind if kind in PLAIN else form_key(operand))
    key = tuple(parts)
    recipe = _recipes.get(key)
    if recipe is None:
        forms = [result.form for result in results]
        recipe = Recipe(rule, operands, attrs, needed, forms)
        operand_forms = [element.form for element in flatten(operands) if isinstance(element, Handle)]
        _recipes.put(key, recipe, any(form.symbolic for form in (*forms, *operand_forms)))
    return recipe


class OperatorNode(Node):
    """The node of one operator call. Saves exactly what its rule reads for the gradients that are wanted."""

    __slots__ = ("_recipe", "_saved")

    def __init__(
        self,
        recipe: Recipe,
        operands: tuple[object, ...],
        results: Sequence[Handle],
        flat: Sequence[Handle],
        edges: Sequence[Any] | None = None,
        replaced: Mapping[int, object] | None = None,
    ) -> None:
        """`flat` are the operands flattened, from which the `edges` follow.

        `replaced` has, by position of an operand, what to save in its stead, where a write has changed it.
        """
        if edges is None:
            edges = [*[None] * len(flat)]
            for at in recipe.wanted:
                edges[at] = edge_of(flat[at])
        super().__init__(edges, ours=_OURS)
        self._recipe = recipe
        saved: list[Any] = recipe.saved.copy()
        for position in recipe.differing:
            is_result, at, used = recipe.sources[position]
            if is_result:
                saved[position] = _saved(results[at], used, at)
            else:
                value = operands[at] if replaced is None or at not in replaced else replaced[at]
                saved[position] = _saved(value, used, None)
        self._saved: Any = saved

    def name(self) -> str:
        """PyTorch's name of the node, such as MulBackward0."""
        return title(self._recipe.rule.owner.name.rstrip("_")) + "Backward0"

    def shown(self) -> Self:
        """The node in a class with its name; its saved values are attributes, such as `_saved_result`."""
        if self.__class__ is OperatorNode:
            self.__class__ = class_named(_Shown, self.name())
        return self

    @property
    def recipe(self) -> Recipe:
        """What calls of this kind save."""
        return self._recipe

    @property
    def saved(self) -> Sequence[object]:
        """What is kept of each thing that the rule needs: saved tensors, numbers, forms, tuples of these. G001."""
        if self._saved is None:
            fail("G001", f"backward: {self.name()} was run before, and what it saved is freed", frame=self.frame)
        return self._saved

    def saved_tensors(self) -> list[Any]:
        """What the rule needs, in its order, unpacked and checked; G001 after release."""
        return [
            tuple([self._unpacked(element) for element in part]) if isinstance(part, tuple) else self._unpacked(part)
            for part in self.saved
        ]

    def _unpacked(self, value: object) -> Any:
        return value.unpack(self, self.frame) if isinstance(value, SavedTensor) else value

    def values(self, gradients: Sequence[object]) -> list[Any]:
        """What the rule is given: the gradients of all results, then what it needs. G001, G003."""
        absent = [None] * (len(self._recipe.forms) - len(gradients))
        return [*gradients, *absent, *self.saved_tensors()]

    def plan(self, values: Sequence[object], flat: Sequence[object]) -> DerivativePlan:
        """How gradients are computed from such values, which are `flat` too."""
        recipe = self._recipe
        key = (recipe.key, structure_of(values), *[form_key(value) for value in flat])
        return derivative_plan(recipe.rule, recipe.attrs, key, recipe.structure, recipe.needed, values)

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Gradients of the operands: by one executable, or call by call where those calls are dispatched on."""
        recipe = self._recipe
        values = self.values(gradients)
        flat = flatten(values)
        if create_graph or not runs_alone(flat):
            return gradients_by_calls(recipe.rule, recipe.attrs, recipe.structure, recipe.needed, values)
        return self.plan(values, flat).run(flat, owned)

    @property
    def saves_tensors(self) -> bool:
        """Whether a pass that keeps nothing frees what is saved."""
        return any(isinstance(value, (SavedTensor, tuple)) for value in self._saved or ())

    @property
    def saves_plainly(self) -> bool:
        """Whether it saves no lists, and nothing that hooks have packed."""
        saved = self._saved or ()
        return not any(isinstance(one, tuple) or (isinstance(one, SavedTensor) and one.is_packed) for one in saved)

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed what it saved; a node that saved no tensor may run again."""
        return self._saved is None

    def release(self) -> None:
        """Frees what was saved; a node that saved no tensor may run again."""
        if self.saves_tensors:
            self._saved = None


_SAVED = "_saved_"
_PYTORCHS = {"input": "self"}  # PyTorch's names of operands


class _Shown(OperatorNode):
    """A node that the user has seen."""

    __slots__ = ()

    def _places(self) -> dict[str, int]:
        """The attribute of each tensor or number that is kept, and its place among them."""
        recipe, rule = self.recipe, self.recipe.rule
        names: dict[str, int] = {}
        for place, (is_result, at, _) in enumerate(recipe.sources):
            name = (rule.results if is_result else rule.operands)[at]
            names[_SAVED + ("result" if is_result and len(rule.results) == 1 else _PYTORCHS.get(name, name))] = place
        return names

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(_SAVED):
            raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")
        places, attrs = self._places(), self.recipe.attrs
        if name.removeprefix(_SAVED) in attrs:
            return attrs[name.removeprefix(_SAVED)]
        if name not in places:
            raise AttributeError(f"{self.name()} has not saved '{name}'")
        value = self._unpacked(self.saved[places[name]])
        return None if isinstance(value, TensorMeta) else value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._places(), *[_SAVED + name for name in self.recipe.attrs]]


def _forms_of(value: object, used: Any) -> Any:
    """What is saved of something of which only forms are read; None for anything else."""
    if isinstance(value, tuple):
        forms = [_forms_of(element, one) for element, one in zip(value, used, strict=True)]
        return None if any(form is None for form in forms) else tuple(forms)
    if value.__class__ is TensorMeta:
        return None if used else value
    return None if used or not isinstance(value, Handle) else value.form


def _saved(value: object, used: Any, output: int | None) -> Any:
    """What to keep of a tensor, a number or a list of them: all of it, or forms where only those are read."""
    if isinstance(value, tuple):
        return tuple([_saved(one, one_used, output) for one, one_used in zip(value, used, strict=True)])
    if not isinstance(value, Handle):
        return value
    return SavedTensor(value, output) if used else value.form
