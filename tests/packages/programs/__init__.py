"""Programs of packages; `names.json` says in which module each is."""

import json
from pathlib import Path

MODULES = json.loads(Path(__file__).with_name("names.json").read_text())
