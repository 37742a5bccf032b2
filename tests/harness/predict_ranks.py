"""What `dist.sim` predicts beside what is measured, in turns, so that both see the machine in the same minutes.

python -m predict_ranks                     # from tests/harness, with PYTHONPATH=../../src:. : 2 and 4 ranks, 5 rounds
python -m predict_ranks --ranks 2 --rounds 9

A round calibrates collectives, simulates a step of each program, and runs it on processes. Times are without those in
which the kernel let other processes run while a rank was ready (`/proc/self/schedstat`, of the rank that waited
longest): what the machine's other work takes; of steps they stand beside the others. A ratio is the median over rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.launch import launch
from rushlight.distributed.simulation.calibrating import measure_tables, waited_seconds
from rushlight.distributed.simulation.costs import write_tables
from rushlight.nn.parallel import DistributedDataParallel

STEPS = 24
BARS = {2: 0.25, 4: 0.40}


def model():
    rl.manual_seed(0)
    layers = [rl.nn.Linear(256, 1024), rl.nn.GELU(), rl.nn.Linear(1024, 256), rl.nn.LayerNorm(256)]
    return rl.nn.Sequential(*layers, rl.nn.Linear(256, 512), rl.nn.GELU())


def sharded():
    made = model()
    fully_shard(made[0])
    fully_shard(made[2])
    return fully_shard(made)


PROGRAMS = {"data parallel": lambda: DistributedDataParallel(model()), "fully sharded": sharded}


def steps(name, mark):
    """Train, and call `mark` after each step."""
    called = PROGRAMS[name]()
    optimizer = rl.optim.SGD(called.parameters(), lr=0.01)
    x = rl.ones(128, 256)
    for _ in range(STEPS):
        optimizer.zero_grad()
        called(x).square().mean().backward()
        optimizer.step()
        mark()


def run_rank(folder, name):
    """One rank of a job that is measured: of each step the slowest rank's time, and the longest wait."""
    rl.set_num_threads(1)
    dist.init_process_group("mpi")
    seen = []
    before = [time.perf_counter(), waited_seconds()]

    def mark():
        now = time.perf_counter(), waited_seconds()
        seen.append([now[0] - before[0], now[1] - before[1]])
        before[:] = now

    steps(name, mark)
    slowest = rl.tensor(seen, dtype=rl.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        Path(folder, "steps.json").write_text(json.dumps(slowest.tolist()[STEPS // 3 :]))
    dist.destroy_process_group()


def measured(name, ranks):
    """The median time of a step, and that without waiting for a processor."""
    with tempfile.TemporaryDirectory() as folder:
        status = launch([sys.executable, __file__, "--rank", folder, "--program", name], ranks)
        assert status == 0, f"a job of {ranks} ranks ended with status {status}"
        seen = json.loads(Path(folder, "steps.json").read_text())
    return statistics.median([wall for wall, _ in seen]), statistics.median([wall - delay for wall, delay in seen])


def predicted(name, ranks):
    """The simulated time of a step, by a process of its own."""
    command = [sys.executable, __file__, "--simulate", str(ranks), "--program", name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def simulate(name, ranks):
    print(dist.sim(lambda: steps(name, dist.mark), ranks, machine_ranks=ranks).seconds)


def compare(counts, rounds):
    ratios = defaultdict(list)
    for number in range(rounds):
        write_tables(measure_tables(sorted({2, *counts}), lambda text: None))
        for ranks in counts:
            for name in PROGRAMS:
                guess = predicted(name, ranks)
                wall, alone = measured(name, ranks)
                ratios[ranks, name].append((guess / wall, guess / alone))
                print(f"{number}: {ranks} ranks, {name}: {guess:.4f} s, {wall:.4f}, {alone:.4f}", flush=True)
    passed = True
    for (ranks, name), found in ratios.items():
        raw, alone = (statistics.median(column) for column in zip(*found, strict=True))
        fits = abs(alone - 1) <= BARS.get(ranks, 0.4)
        passed &= fits
        print(f"{ranks} ranks, {name}: {raw:.2f} of a step, {alone:.2f} of one without waiting: {fits}")
    return passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", default="data parallel")
    parser.add_argument("--rank")
    parser.add_argument("--simulate", type=int)
    options = parser.parse_args()
    if options.rank:
        run_rank(options.rank, options.program)
    elif options.simulate:
        simulate(options.program, options.simulate)
    else:
        sys.exit(0 if compare(options.ranks, options.rounds) else 1)


if __name__ == "__main__":
    main()
