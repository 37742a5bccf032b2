"""The prompt that an agent is handed: instructions of ours, and quoted text of others.

`say` takes text of this program alone, and `show` takes untrusted text alone. Shown text is sanitised, and every line
of it begins with `| `, so that no line of it can be taken for an instruction. Whatever an outsider writes, the lines
without that mark are the same.
"""

from typing import LiteralString

from mergedog.sanitise import LOG_RULES, PAGE_CHARACTERS, sanitise
from mergedog.untrusted import TaintError, Untrusted, reveal, trusted

MARK = "| "


class Prompt:
    """Collects instructions and quotations."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def say(self, text: LiteralString) -> None:
        """Add an instruction: text that stands in this program."""
        self._lines.append(trusted(text))

    def fact(self, label: LiteralString, value: str | int) -> None:
        """Add a value of ours, such as the policy's tag; it has one line."""
        line = f"{trusted(label)}: {trusted(str(value) if type(value) is int else value)}"
        if "\n" in line or not line.isprintable():
            raise TaintError(f"the fact {label} is not one printable line")
        self._lines.append(line)

    def show(self, label: LiteralString, text: Untrusted) -> None:
        """Quote what others wrote, as a reader of the page sees it."""
        if type(text) is not Untrusted:
            raise TaintError(f"only untrusted text is quoted, not {type(text).__name__}")
        self._lines.append(f"{trusted(label)}, quoted:")
        is_log = text.source == "log"
        seen = sanitise(text, LOG_RULES) if is_log else sanitise(text[:PAGE_CHARACTERS])
        clean = reveal(seen, "quoted in a prompt, line by line")
        self._lines.extend(MARK + line for line in clean.split("\n"))
        self._lines.append("")

    def text(self) -> str:
        """Return the prompt."""
        return "\n".join(self._lines) + "\n"
