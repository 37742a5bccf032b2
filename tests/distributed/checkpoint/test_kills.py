"""Saves that end in the middle, by kill -9 or for want of room, leave the checkpoint that was there."""

import json
import subprocess
import sys
from pathlib import Path


def test_the_checkpoint_before_stays_whatever_ends_a_save(tmp_path: Path):
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, "-W", "ignore", str(script), str(tmp_path / "checkpoint"), "50"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["within"] >= 10, "most were killed within a save"
    assert report["full_disk"] == "P003" and report["kept"] and report["next"]
