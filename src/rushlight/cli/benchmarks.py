"""`rushlight bench`."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

import rushlight as rl
from rushlight.bench import ablations, capturing, catalog, parity, tracing
from rushlight.bench.contestants import Contestant, Kind, find
from rushlight.bench.lengths import measure_lengths
from rushlight.bench.models import MODELS
from rushlight.bench.overhead import stages
from rushlight.bench.prtime import counting
from rushlight.bench.prtime.opcodes import COUNTERS
from rushlight.bench.ranks.collectives import as_table, cases, measure_collectives
from rushlight.bench.records import Case, Record
from rushlight.bench.reports.page import as_html
from rushlight.bench.reports.tables import Table, aligned, as_markdown, as_text
from rushlight.bench.results import ceilings_of, machine_record, measure
from rushlight.bench.startup import measure_starts
from rushlight.bench.suite.curves import as_table as curve_table
from rushlight.bench.suite.curves import curve, difference
from rushlight.bench.suite.reports import as_record
from rushlight.bench.suite.reports import tables as suite_tables
from rushlight.bench.suite.running import AMPS, SUITE, TOLERANCE, Setup, measured
from rushlight.cli.values import known, names_in, progress, whole_numbers, write
from rushlight.support.errors import error, fail

app = typer.Typer(help="Measure, alone or beside peers in other interpreters.", no_args_is_help=True)

Only = Annotated[list[str] | None, typer.Argument(help="Cases; all by default.")]
Cases = Annotated[str | None, typer.Option(help="Cases too, separated by commas.")]
PeerPython = Annotated[
    list[Path] | None, typer.Option(help="An interpreter that has peers; may be given several times.")
]
Peers = Annotated[str | None, typer.Option(help="Peers to measure beside, separated by commas; all by default.")]
Rounds = Annotated[int, typer.Option(min=1, help="Samples of each, taken in turns.")]
Budget = Annotated[float, typer.Option(min=0, help="Seconds of sampling per case, for fewer rounds of slow ones.")]
Limit = Annotated[float, typer.Option(min=1, help="Seconds after which a contestant without an answer is out.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads for each contestant; 0 for all processors.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write all samples to this file.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page with charts to this file.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")]
# What the first call is timed of.
FIRST_CALLS = ("demo-step", "gpt2-forward-128", "gpt2-step-2x256")


def _add_family(
    families: tuple[str, ...], about: str, slowest: float, more: Callable[[], Record] | None = None
) -> None:
    """Adds the command that times cases, named by the first family. A contestant may take `slowest` seconds.

    `more` measures what else belongs to the record.
    """

    def command(
        only: Only = None,
        cases: Cases = None,
        peer_python: PeerPython = None,
        peers: Peers = None,
        rounds: Rounds = 15,
        budget: Budget = 60.0,
        limit: Limit = slowest,
        threads: Threads = 0,
        out: Json = None,
        html: Html = None,
        markdown: Markdown = False,
    ) -> None:
        results = _run(families, _split(only, cases), peer_python, peers, (rounds, budget, limit, threads))
        _show([results if more is None else {**results, **more()}], out, html, markdown)

    app.command(families[0], help=about)(command)


def _stages() -> Record:
    """What each part of a call takes."""
    return {"stages": [list(stage) for stage in stages.measure_stages()]}


_add_family(("ops", "eager", "layers"), "Time single operators, common ones eagerly, layers and transforms.", 300.0)
_add_family(("models",), "Time whole models: training steps and inference.", 600.0)
_add_family(("overhead",), "Time calls on four elements, and each stage of them.", 300.0, _stages)


@app.command("compile-time")
def compile_time(
    only: Only = None,
    cases: Cases = None,
    peer_python: PeerPython = None,
    peers: Peers = None,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each, taken in turns.")] = 3,
    limit: Limit = 600.0,
    threads: Threads = 0,
    out: Json = None,
    html: Html = None,
    markdown: Markdown = False,
) -> None:
    """Time the import and the first call, each in a new process, with the cache off, empty and filled."""
    chosen = _cases(("models",), _split(only, cases) or FIRST_CALLS)
    field = find(peer_python or (), names_in(peers) or None)
    pythons = {kind: python for kind, python in field.pythons.items() if kind.mode == "compiled"}
    count = threads or rl.get_num_threads()
    starts = [measure_starts(case, pythons, rounds, count, limit, progress) for case in chosen]
    versions = {name: entry.get("version", "") for start in starts for name, entry in start["contestants"].items()}
    record = {
        "machine": machine_record(count),
        "contestants": {
            kind.name: {"version": versions[kind.name], "interpreter": python} for kind, python in pythons.items()
        },
        "missing": field.missing,
        "starts": starts,
    }
    _show([record], out, html, markdown)


@app.command("parity")
def compare_sizes(
    models: Annotated[str | None, typer.Option(help="Small models, separated by commas; all by default.")] = None,
    size: Annotated[str, typer.Option(help=f"Sizes of inputs: {' or '.join(parity.PRESETS)}.")] = "medium",
    rounds: Annotated[int, typer.Option(min=0, help="Samples of each, taken in turns; 0 to compare code alone.")] = 31,
    budget: Budget = 60.0,
    threads: Threads = 0,
) -> None:
    """Compare code for unbacked sizes with code for hinted sizes, and its time with that for constants."""
    chosen = known(names_in(models) or list(MODELS), MODELS, "bench: there is no small model {}")
    known([size], parity.PRESETS, "bench: there are no sizes {}")
    rl.set_num_threads(threads or rl.get_num_threads())
    results: list[parity.Parity] = []
    for name in chosen:
        progress(f"{name}\n")
        results.append(parity.parity_of(name, size, rounds, budget))
    typer.echo("\n".join(aligned(parity.as_table(results))))
    raise typer.Exit(0 if all(one.holds for one in results) else 1)


Amp = Annotated[str | None, typer.Option(help="Autocast to bf16 or fp16.")]


@app.command("suite")
def run_suite(
    only: Annotated[str | None, typer.Option(help="Models, separated by commas; all by default.")] = None,
    training: Annotated[bool, typer.Option("--training", help="Losses and gradients, in place of inference.")] = False,
    inference: Annotated[bool, typer.Option("--inference", help="Results; as without --training.")] = False,
    amp: Amp = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="One graph for all sizes; others are run too.")] = False,
    compiled_autograd: Annotated[
        bool, typer.Option("--compiled-autograd", help="Compile backward passes as they run.")
    ] = False,
    size: Annotated[str, typer.Option(help=f"Sizes of inputs: {' or '.join(parity.PRESETS)}.")] = "tiny",
    rounds: Annotated[int, typer.Option(min=0, help="Samples of each, taken in turns; 0 for accuracy alone.")] = 15,
    budget: Budget = 20.0,
    out: Json = None,
    html: Html = None,
) -> None:
    """Run whole models eagerly and compiled: accuracy and speed in one table. Ends with 1 where one is not accurate."""
    if training and inference:
        fail("A002", "bench: --training or --inference, not both")
    known([size], parity.PRESETS, "bench: there are no sizes {}")
    known(names_in(amp), AMPS, "bench: there is no autocast to {}")
    names = known(names_in(only), SUITE, "bench: there is no model {}") or list(SUITE)
    setup = Setup(training, amp, dynamic, compiled_autograd, size)
    cases: list[Record] = []
    for name in names:
        progress(f"{name} ")
        cases.append(measured(name, setup, rounds, budget))
    progress("\n")
    record = as_record(setup, machine_record(rl.get_num_threads()), cases)
    if out is not None:
        write(out, json.dumps(record))
    if html is not None:
        write(html, as_html([record], suite_tables))
    _show_tables(suite_tables(record))
    if not all(case["passes"] for case in cases):
        raise typer.Exit(1)


@app.command("model")
def run_model(
    name: Annotated[str, typer.Argument(help="A model of the suite.")],
    train: Annotated[bool, typer.Option("--train", help="Train it; else it is run as by `suite`.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Steps of training.")] = 20,
    amp: Amp = None,
    device: Annotated[str, typer.Option(help="Where it runs; what is not there is skipped.")] = "cpu",
    tiny: Annotated[bool, typer.Option("--tiny", help="Small sizes of inputs.")] = False,
    fp8: Annotated[bool, typer.Option("--fp8", help="The head in 8-bit floats, which needs a GPU.")] = False,
) -> None:
    """Train one model eagerly and compiled, and compare the losses. Ends with 1 where they differ by 1 %."""
    known([name], SUITE, "bench: there is no model {}")
    known(names_in(amp), AMPS, "bench: there is no autocast to {}")
    if device != "cpu" or fp8:
        typer.echo(f"{name} is skipped: {'8-bit products are' if fp8 else device + ' is'} not here")
        return
    size = "tiny" if tiny else "medium"
    if not train:
        run_suite(only=name, amp=amp, size=size)
        return
    eager, compiled = (curve(name, steps, amp, size, compiled=each) for each in (False, True))
    _show_tables([curve_table(name, eager, compiled)])
    if not difference(compiled, eager) <= TOLERANCE:
        raise typer.Exit(1)


@app.command("unbind-split-flip-cat")
def trace_sizes(
    iters: Annotated[int, typer.Option(min=1, help="How often it is split and joined.")] = 40,
    batch: Annotated[int, typer.Option(min=1, help="Parts each time: as many sizes that values tell.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Processes for each time that is printed.")] = 3,
    peers: Annotated[bool, typer.Option("--peers", help="Measure torch.export as well.")] = False,
    peer_python: PeerPython = None,
    scaling: Annotated[bool, typer.Option("--scaling", help="Trace 8, 16, 32 and 64 parts as well.")] = False,
    trace_only: Annotated[bool, typer.Option("--trace-only", help="No first call with native code.")] = False,
    limit: Limit = 600.0,
) -> None:
    """Time the tracing of a program with many sizes that values tell, and its whole first call."""
    wanted = ((tracing.OURS, rounds), (tracing.WHOLE, int(not trace_only)), (tracing.TORCH, int(peers)))
    results: list[tracing.Runs] = []
    for kind, count in [pair for pair in wanted if pair[1]]:
        python = tracing.interpreter(kind.framework, peer_python or ())
        progress(f"{kind.name}\n")
        results.append(tracing.run(kind, python, (iters, batch), count, limit))
    tables = [tracing.as_table(results), *[tracing.stages_table(one) for one in results if one.kind is tracing.WHOLE]]
    if scaling:
        tables.append(tracing.scaling(iters, rounds, limit, progress))
    _show_tables(tables)


@app.command("capture")
def capture(
    only: Annotated[list[str] | None, typer.Argument(help="Programs; all by default.")] = None,
    peers: Annotated[bool, typer.Option("--peers", help="Measure torch.compile as well.")] = False,
    peer_python: PeerPython = None,
    limit: Limit = 600.0,
    out: Json = None,
) -> None:
    """Time capture by bytecodes and operators, and the guards of later calls."""
    chosen = known(only or capturing.PROGRAMS, capturing.PROGRAMS, "bench: there is no program {}")
    results = capturing.measure_programs(chosen, _capturers(peers, peer_python), limit, progress)
    _show_tables([capturing.as_table(results), capturing.calls_table(results)])
    write(out, json.dumps([one.to_record() for one in results], indent=2) + "\n")


@app.command("deep-nested-module")
def deep_nested_module(
    depths: Annotated[str, typer.Option(help="Depths, separated by commas.")] = ",".join(map(str, capturing.DEPTHS)),
    peers: Annotated[bool, typer.Option("--peers", help="Measure torch.compile as well.")] = False,
    peer_python: PeerPython = None,
    limit: Limit = 600.0,
    out: Json = None,
) -> None:
    """Time the capture of modules in modules, and of one that is deeper than Python's limit of recursion."""
    chosen = whole_numbers(depths, "--depths")
    results = capturing.measure_depths(chosen, _capturers(peers, peer_python), limit, progress)
    deepest = [(capturing.PARTS, sys.executable)]
    results += capturing.measure_depths([capturing.DEEPEST], deepest, limit, progress)
    _show_tables([capturing.depths_table(results)])
    write(out, json.dumps([one.to_record() for one in results], indent=2) + "\n")


@app.command("pr-time")
def count_programs(
    only: Annotated[list[str] | None, typer.Argument(help="Programs; all by default.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All programs, as without names.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Print the programs.")] = False,
    counter: Annotated[str, typer.Option("--count", help="bytecodes, or callgrind with valgrind.")] = "bytecodes",
    runs: Annotated[int, typer.Option(min=1, help="Processes, one after the other.")] = 1,
    check: Annotated[Path | None, typer.Option(help="Compare with this file; end with 1 where a count is off.")] = None,
    accept: Annotated[Path | None, typer.Option(help="Write the counts to this file.")] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="What a count may be off.")] = counting.TOLERANCE,
    plant: Annotated[float, typer.Option(min=0, help="Add this share of work, to see that it is told.")] = 0.0,
) -> None:
    """Count what captures, calls and the import take: bytecodes of Python, or instructions of the processor."""
    names = counting.NAMES if everything or not only else only
    known(names, counting.NAMES, "bench: there is no {} to count")
    known([counter], COUNTERS, "bench: there is no {} to count")
    if listed:
        typer.echo("\n".join(names))
        return
    expected = counting.read(check, counter) if check is not None else {}
    rounds = [counting.count_programs(names, counter, plant) for _ in range(runs)]
    _show_tables([counting.as_table(rounds, expected, tolerance)])
    if accept is not None:
        write(accept, counting.updated(accept, counter, rounds[-1]))
    raise typer.Exit(1 if counting.changes(rounds[-1], expected, tolerance) else 0)


@app.command("ablations")
def leave_out(
    groups: Annotated[
        list[str] | None, typer.Argument(help=f"Of {', '.join(ablations.GROUPS)}; all by default.")
    ] = None,
    only: Annotated[str, typer.Option(help="Trials whose names have this text.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each, taken in turns.")] = 15,
    budget: Annotated[float, typer.Option(min=0, help="Seconds of sampling for each trial.")] = 10.0,
    threads: Threads = 0,
    clock: Annotated[str, typer.Option(help="wall, or cpu for one thread beside other work.")] = "wall",
    out: Json = None,
) -> None:
    """Time mechanisms of the compiler on and off; ends with 1 where the bits differ."""
    chosen = known(groups or list(ablations.GROUPS), ablations.GROUPS, "bench: there is no group {}")
    trials = {name: [one for one in ablations.GROUPS[name]() if only in one.name] for name in chosen}
    if not any(trials.values()):
        names = [one.name for name in chosen for one in ablations.GROUPS[name]()]
        fail("A002", f"bench: there is no trial {only}", hint=f"one of {', '.join(names)}")
    known([clock], ablations.CLOCKS, "bench: there is no clock {}")
    rl.set_num_threads(threads or rl.get_num_threads())
    ceilings = ceilings_of(rl.get_num_threads())
    measured: list[ablations.Outcome] = []
    for name, some in trials.items():
        outcomes: list[ablations.Outcome] = []
        for trial in some:
            progress(f"{trial.name}\n")
            outcomes.append(ablations.measure(trial, ceilings, rounds, budget, clock))
        _show_tables([ablations.as_table(name, outcomes)] if outcomes else [])
        measured += outcomes
    write(out, json.dumps([one.to_record() for one in measured], indent=2) + "\n")
    raise typer.Exit(0 if all(one.same for one in measured) else 1)


@app.command("lengths")
def many_lengths(
    case: Annotated[str, typer.Argument(help="The case.")] = "gpt2-40-lengths",
    peer_python: PeerPython = None,
    peers: Peers = None,
    limit: Limit = 1800.0,
    threads: Threads = 0,
) -> None:
    """Time prompts of many lengths: the first call of each, with what is compiled on the way, and later ones."""
    (chosen,) = _cases(("lengths",), [case])
    field = find(peer_python or (), names_in(peers) or None)
    pythons = {kind: python for kind, python in field.pythons.items() if kind.framework in ("rushlight", "torch")}
    lengths = measure_lengths(chosen, pythons, threads or rl.get_num_threads(), limit, progress)
    missing = [f"{name} was not measured: {reason}" for name, reason in field.missing.items()]
    typer.echo("\n".join([*aligned(lengths), *missing]))


@app.command("collectives")
def collectives(
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=2, help="How many ranks, of this machine.")] = 2,
    peer_python: PeerPython = None,
    only: Annotated[str, typer.Option(help="Verbs: all_reduce, ..., S0-R, ..., save, load; all by default.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each, one after the other.")] = 7,
    limit: Limit = 120.0,
    out: Json = None,
) -> None:
    """Time collectives, redistributions of 64 MB and checkpoints of 512 MB beside torch's, in turns."""
    verbs = list(dict.fromkeys([case.partition("/")[0] for case in cases()]))
    chosen = known(names_in(only), verbs, "bench: there is no collective {}")
    python = tracing.interpreter("torch", peer_python or ())
    results = measure_collectives(python, ranks, rounds, limit, progress, chosen)
    _show_tables([as_table(results)])
    write(out, json.dumps([one._asdict() for one in results], indent=2) + "\n")


@app.command()
def show(
    files: Annotated[list[Path], typer.Argument(help="What --json has written.")],
    html: Html = None,
    markdown: Markdown = False,
) -> None:
    """Show measurements that were written to files, without measuring."""
    _show([_read(file) for file in files], None, html, markdown)


def _split(only: Sequence[str] | None, cases: str | None) -> list[str]:
    return [*(only or ()), *names_in(cases)]


def _cases(families: Sequence[str], only: Sequence[str]) -> list[Case]:
    """The families' cases, or those that are named: by name, by family, or by the group before a name's slash."""
    cases = [case for family in families for case in catalog.family(family)]
    chosen: list[Case] = []
    for name in only:
        named = [case for case in cases if name in (case.name, case.family, case.name.rpartition("/")[0])]
        if not named:
            fail("A002", f"bench: there is no case {name}", hint=f"one of {', '.join([case.name for case in cases])}")
        chosen += named
    return chosen or cases


def _run(
    families: Sequence[str],
    only: Sequence[str],
    pythons: Sequence[Path] | None,
    peers: str | None,
    effort: tuple[int, float, float, int],
) -> Record:
    """Measures the cases of families."""
    rounds, budget, limit, threads = effort
    chosen = _cases(families, only)
    field = find(pythons or (), names_in(peers) or None)
    count = threads or rl.get_num_threads()
    ceilings = ceilings_of(count)
    results: list[Record] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rushlight-bench-")))
        entrants = [Contestant(kind, python, count, limit, folder) for kind, python in field.pythons.items()]
        for entrant in entrants:
            stack.callback(entrant.close)
        for case in chosen:
            results.append(measure(case, entrants, ceilings, rounds, budget, progress))
        who = {one.name: {"version": one.version, "interpreter": one.python} for one in entrants}
    return {
        "machine": machine_record(count),
        "contestants": who,
        "missing": field.missing,
        "ceilings": ceilings.to_record(),
        "cases": results,
    }


def _capturers(peers: bool, pythons: Sequence[Path] | None) -> list[tuple[Kind, str | None]]:
    """Who captures, and in which interpreter."""
    torch = [(capturing.TORCH, tracing.interpreter("torch", pythons or ()))] if peers else []
    return [*capturing.ours(), *torch]


def _show_tables(tables: Sequence[Table]) -> None:
    """Prints the tables that have rows or notes."""
    shown = [aligned(table) for table in tables if len(table.rows) > 1 or table.notes]
    typer.echo("\n\n".join(["\n".join(lines) for lines in shown]))


def _show(records: Sequence[Record], out: Path | None, html: Path | None, markdown: bool) -> None:
    for record in records:
        typer.echo(as_markdown(record) if markdown else as_text(record))
        write(out, json.dumps(record, indent=2) + "\n")
    write(html, as_html(records))


def _read(file: Path) -> Record:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise error("A002", f"bench: {file} is no record of measurements", cause=str(cause)) from cause
