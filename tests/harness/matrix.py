"""The generated matrix: every operator, every question, every case.

python -m matrix                                        # from tests/harness: everything, with a summary
python -m matrix add compiled                           # one operator, one question
python -m matrix add compiled s0-float32-transposed-odd-given
"""

import sys
import time
import traceback
import warnings
from collections import Counter

from matrix_cases import ASKED, parse_case
from matrix_exemptions import exemption_for
from matrix_questions import QUESTIONS, cells


def answer(question: str, case) -> str | None:
    """What is wrong in a cell, or None; an exception is a wrong answer too."""
    ask, _ = QUESTIONS[question]
    try:
        return ask(case)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().split("\n")[0]
        return f"{type(error).__name__}: {text} ({frame.filename.rpartition('/rushlight/')[2]}:{frame.lineno})"


def repro(question: str, case) -> str:
    """The command that asks one cell again."""
    return f"PYTHONPATH=src:tests/harness python -m matrix {case.op} {question} {case}"


def failures(question: str, asked) -> list[str]:
    """What is wrong in the cells of a question that are not exempt, each with its repro."""
    found = []
    for case in asked:
        text = answer(question, case) if exemption_for(question, case) is None else None
        if text is not None:
            found.append(f"{case.op} {question} {case}: {text}\n    {repro(question, case)}")
    return found


def main(arguments: list[str]) -> int:
    """Prints what is wrong, and how many cells were asked."""
    names, questions = arguments[:1] or ASKED, arguments[1:2] or list(QUESTIONS)
    counts: Counter[str] = Counter()
    start = time.process_time()
    for op in names:
        for question in questions:
            chosen = [parse_case(op, arguments[2])] if len(arguments) > 2 else cells(op, question)
            for case in chosen:
                text = answer(question, case)
                counts["asked"] += 1
                if text is not None:
                    exempt = exemption_for(question, case) is not None
                    counts["exempt" if exempt else "wrong"] += 1
                    if not exempt or len(arguments) > 2:
                        print(f"{op} {question} {case}: {text}", flush=True)
    print(
        f"{counts['asked']} cells, {counts['wrong']} wrong, {counts['exempt']} exempt, "
        f"{time.process_time() - start:.1f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    warnings.simplefilter("error")
    sys.exit(main(sys.argv[1:]))
