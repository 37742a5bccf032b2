"""Characters that people do not see, or that change how they see others: tables of ranges."""

import unicodedata

# First, last and what they are.
INVISIBLE: tuple[tuple[int, int, str], ...] = (
    (0x00AD, 0x00AD, "soft hyphen"),
    (0x034F, 0x034F, "combining grapheme joiner"),
    (0x061C, 0x061C, "Arabic letter mark"),
    (0x115F, 0x1160, "Hangul fillers"),
    (0x17B4, 0x17B5, "Khmer inherent vowels"),
    (0x180B, 0x180F, "Mongolian variation selectors"),
    (0x200B, 0x200F, "zero-width characters and direction marks"),
    (0x202A, 0x202E, "direction embeddings and overrides"),
    (0x2060, 0x206F, "word joiner, invisible operators, direction isolates"),
    (0x2800, 0x2800, "blank Braille pattern"),
    (0x3164, 0x3164, "Hangul filler"),
    (0xFE00, 0xFE0F, "variation selectors"),
    (0xFEFF, 0xFEFF, "byte order mark"),
    (0xFFA0, 0xFFA0, "halfwidth Hangul filler"),
    (0xFFF9, 0xFFFB, "interlinear annotations"),
    (0x1BCA0, 0x1BCA3, "shorthand format controls"),
    (0x1D173, 0x1D17A, "musical format controls"),
    (0xE0000, 0xE007F, "tags"),
    (0xE0100, 0xE01EF, "variation selectors supplement"),
)
# General categories without a meaning that people share: controls, surrogates, private use, not assigned, and format
# characters that the table above does not name.
UNPRINTABLE = {"Cc", "Cs", "Co", "Cn", "Cf"}


def invisible_points(table: tuple[tuple[int, int, str], ...] = INVISIBLE) -> dict[int, None]:
    """Return a translation that removes the characters of a table."""
    return {point: None for first, last, _ in table for point in range(first, last + 1)}


POINTS = invisible_points()


def remove_invisible(text: str) -> str:
    """Return `text` without invisible characters."""
    return text if text.isascii() else text.translate(POINTS)


def escape_controls(text: str) -> str:
    """Return `text` with characters that cannot be printed written as `\\u{1b}`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in UNPRINTABLE:
        return character
    return f"\\u{{{ord(character):x}}}"
