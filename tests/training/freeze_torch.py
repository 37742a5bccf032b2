"""Write what PyTorch gives, `torch_*.json`: `python tests/training/freeze_torch.py`, with torch 2.13.

The scripts are run as they are but for their import lines.
"""

import json
import re
from pathlib import Path

import torch

HERE = Path(__file__).parent
STEPS = 200


def run(name: str) -> dict:
    """Return the names that a script defines, with torch in its import lines."""
    text = (HERE / name).read_text(encoding="utf-8")
    text = re.sub(r"^(import|from) rushlight\b( as torch)?", r"\1 torch", text, flags=re.M)
    space: dict = {"__name__": name}
    exec(compile(text, name, "exec"), space)
    return space


def write(name: str, table: dict) -> None:
    """Write a table, with the version that it is of."""
    table = {"torch": torch.__version__.split("+")[0], **table}
    (HERE / name).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    digits = run("digits.py")
    train_images, test_images, train_labels, test_labels = digits["load_data"]()
    losses, network = digits["train"](train_images, train_labels, STEPS)
    recognised = digits["accuracy"](network, test_images, test_labels)
    write("torch_digits.json", {"steps": STEPS, "losses": losses, "recognised": recognised})
    found = {script.__name__: script(lambda model: model) for script in run("scripts.py")["SCRIPTS"]}
    write("torch_scripts.json", {"found": found})


if __name__ == "__main__":
    main()
