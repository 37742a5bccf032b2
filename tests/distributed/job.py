"""One job that runs the cases of `conformance.py` and writes down how each ended: `job.py RESULTS`."""

import json
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import conformance

from rushlight import distributed as dist


def main(results: Path) -> None:
    dist.init_process_group("mpi")
    outcome: dict[str, str] = {}
    for name, case in conformance.CASES.items():
        try:
            case()
            outcome[name] = "passed"
        except Exception:
            outcome[name] = traceback.format_exc()
            break  # ranks are no longer at the same place
    (results / f"{dist.get_rank()}.json").write_text(json.dumps(outcome))
    dist.destroy_process_group()


main(Path(sys.argv[1]))
