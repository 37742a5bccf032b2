"""Write what PyTorch gives, `torch_*.json`: `python tests/training/freeze_torch.py [PROGRAM...]`, with torch 2.13.

The scripts are run as they are but for their import lines. Rushlight must be importable as well: its random numbers
are given to the programs (`draws.py`). With names of programs only these are run, and the others keep their numbers.
"""

import json
import re
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.training.draws import Draws

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
STEPS = 200


def run(path: Path) -> dict:
    """Return the names that a script defines, with torch in its import lines."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^(import|from) rushlight\b( as torch)?", r"\1 torch", text, flags=re.M)
    space: dict = {"__name__": path.name}
    exec(compile(text, str(path), "exec"), space)
    return space


def write(name: str, table: dict) -> None:
    """Write a table, with the version that it is of."""
    table = {"torch": torch.__version__.split("+")[0], **table}
    (HERE / name).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def freeze_digits() -> None:
    digits = run(HERE / "digits.py")
    train_images, test_images, train_labels, test_labels = digits["load_data"]()
    losses, network = digits["train"](train_images, train_labels, STEPS)
    recognised = digits["accuracy"](network, test_images, test_labels)
    write("torch_digits.json", {"steps": STEPS, "losses": losses, "recognised": recognised})


def freeze_scripts() -> None:
    found = {script.__name__: script(lambda model: model) for script in run(HERE / "scripts.py")["SCRIPTS"]}
    write("torch_scripts.json", {"found": found})


def freeze_programs(wanted: list[str]) -> None:
    kept = HERE / "torch_programs.json"
    losses = json.loads(kept.read_text(encoding="utf-8"))["losses"] if wanted and kept.exists() else {}
    for path in sorted(PROGRAMS.glob("*.py")):
        if not wanted or path.stem in wanted:
            with Draws(torch).patched():
                losses[path.stem] = run(path)["train"]()
            torch.set_default_dtype(torch.float32)
    write(kept.name, {"losses": dict(sorted(losses.items()))})


def main() -> None:
    wanted = sys.argv[1:]
    if not wanted:
        freeze_digits()
        freeze_scripts()
    freeze_programs(wanted)


if __name__ == "__main__":
    main()
