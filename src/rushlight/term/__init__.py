"""Immutable typed nodes: the one data structure that sizes, scalar code and tensor graphs are written in."""

from rushlight.term.rewrite import Pattern, Rule, Rules, Wildcard, match, rewrite
from rushlight.term.term import (
    Attrs,
    Op,
    Term,
    attr_key,
    forget_dead,
    interned,
    interned_at,
    slot_setter,
    structural_digest,
)
from rushlight.term.text import (
    FormatsAtoms,
    Language,
    Reader,
    ReadsAtoms,
    TermSyntaxError,
    format_terms,
    format_value,
    parse_terms,
)
from rushlight.term.walk import leaves, map_terms, postorder, substitute

__all__ = [
    "Attrs",
    "FormatsAtoms",
    "Language",
    "Op",
    "Pattern",
    "Reader",
    "ReadsAtoms",
    "Rule",
    "Rules",
    "Term",
    "TermSyntaxError",
    "Wildcard",
    "attr_key",
    "forget_dead",
    "format_terms",
    "format_value",
    "interned",
    "interned_at",
    "leaves",
    "map_terms",
    "match",
    "parse_terms",
    "postorder",
    "rewrite",
    "slot_setter",
    "structural_digest",
    "substitute",
]
