"""Words and sentences: `python -m tools.prose`.

The first sentence of every docstring of the package ends on its first line and has fewer than 100 characters. Names
that were replaced by the field's word (`RETIRED`) do not come back as identifiers.
"""

import ast
import re
import sys
from collections.abc import Iterator

from tools.budgets import Module, source_files

SUBJECT_CHARACTERS = 100
# A sentence ends with a full stop, a question mark or a colon before an example or a table.
SENTENCE = re.compile(r"(.+?[.:?!])(?:\s|$)")

# Identifiers by the word that replaced them.
RETIRED = {
    "ANSWERERS": "FALLBACK_KERNELS",
    "Birth": "UnbackedOutput",
    "Chain": "FusedChain",
    "Doubt": "MaybeAlias",
    "Form": "TensorMeta",
    "Kept": "ConstantCache",
    "Likeness": "StructuralKey",
    "Machine": "ScheduleTarget",
    "Making": "PassContext",
    "Reach": "CausalBound",
    "Sheet": "ArgumentBlock",
    "Taken": "InputRef",
    "band": "row_block",
    "bands": "row_blocks",
    "births": "unbacked_outputs",
    "born": "unbacked",
    "codes_calls": "codes_arguments",
    "extremes": "minmax",
    "likeness": "structural_key",
    "looped": "rolled",
}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def subjects(module: Module) -> Iterator[str]:
    """Yield the docstrings whose first sentence is too long, or does not end on the first line."""
    for node in module.nodes:
        text = ast.get_docstring(node) if isinstance(node, Documented) else None
        if not text:
            continue
        first = text.split("\n", 1)[0]
        sentence = SENTENCE.match(first)
        if sentence is None:
            yield module.at(node, f"the first sentence does not end on the first line: {first}")
        elif len(sentence[1]) >= SUBJECT_CHARACTERS:
            yield module.at(node, f"the first sentence has {len(sentence[1])} characters (below {SUBJECT_CHARACTERS})")


def retired(module: Module) -> Iterator[str]:
    """Yield the identifiers that have a better name."""
    for node in module.nodes:
        for name in _identifiers(node):
            if name in RETIRED:
                yield module.at(node, f"{name}: say {RETIRED[name]}")


def _identifiers(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "name", "arg", "asname", "module"):
        name = getattr(node, field, None)
        if isinstance(name, str):
            yield from name.split(".")


def findings(modules: list[Module]) -> list[str]:
    """Return everything in the package that does not read as it should."""
    written = [module for module in modules if module.ours and not module.generated]
    return [message for module in written for rule in (subjects, retired) for message in rule(module)]


def main() -> int:
    """Print the findings; return 1 if there are any."""
    found = findings([Module(path) for path in source_files()])
    print(*found, f"prose: {len(found)} findings", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
