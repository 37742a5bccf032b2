"""Write `torch_digits.json`, the losses that PyTorch gives: `python tests/training/freeze_torch.py`, with torch 2.13.

The script is run as it is but for its import lines.
"""

import json
import re
from pathlib import Path

import torch

HERE = Path(__file__).parent
STEPS = 200


def torch_text() -> str:
    """Return the script's text with torch in its import lines."""
    text = (HERE / "digits.py").read_text(encoding="utf-8")
    return re.sub(r"^(import|from) rushlight\b( as torch)?", r"\1 torch", text, flags=re.M)


def main() -> None:
    space: dict = {"__name__": "digits"}
    exec(compile(torch_text(), "digits.py", "exec"), space)
    train_images, test_images, train_labels, test_labels = space["load_data"]()
    losses, network = space["train"](train_images, train_labels, STEPS)
    recognised = space["accuracy"](network, test_images, test_labels)
    table = {"torch": torch.__version__.split("+")[0], "steps": STEPS, "losses": losses, "recognised": recognised}
    (HERE / "torch_digits.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
