"""Where log topics are written: the loggers `rushlight.<topic>`. Loaded when the first topic is used."""

import logging
import sys


class StandardError(logging.Handler):
    """Writes to whatever `sys.stderr` is at that moment, so that redirections are followed."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record as a line."""
        sys.stderr.write(self.format(record) + "\n")


def enabled(topic: str) -> bool:
    """Whether the program itself listens to a topic."""
    return logging.getLogger(f"rushlight.{topic}").isEnabledFor(logging.DEBUG)


def write(topic: str, text: str, args: tuple[object, ...], *, asked: bool) -> None:
    """Log `text % args`. `asked` when the settings ask for the topic, not (only) the program's own logging levels."""
    logger = logging.getLogger(f"rushlight.{topic}")
    if asked and not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.DEBUG)
    if asked and not logger.hasHandlers():
        handler = StandardError()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logging.getLogger("rushlight").addHandler(handler)
    logger.debug(text, *args)
