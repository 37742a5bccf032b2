"""The command: `run`, `watch`, `status`, `policy`, `bundle`, `replay` and `demo`."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from mergedog import identifiers
from mergedog.bundle import read_bundle, write_bundle
from mergedog.bundle import replay as replay_session
from mergedog.clock import SystemClock
from mergedog.command import CommandAgent
from mergedog.demo import play
from mergedog.errors import MergedogError
from mergedog.git import GitRepository
from mergedog.github.forge import GitHub
from mergedog.github.transport import Transport
from mergedog.governor import Attribution, Governor, Turnstile
from mergedog.policy import default_text, read_policy
from mergedog.processes import end_with_parent, ended_in_order
from mergedog.secrets import Secret
from mergedog.session import Again, Done, Outcome, Wait, World
from mergedog.shepherd import Shepherd
from mergedog.state import Store
from mergedog.table import colour, read_states, status_table
from mergedog.tape import RecordedStore, next_tape, recorded
from mergedog.watch import Kennel

app = typer.Typer(help="Shepherds approved pull requests to green; a human merges.", no_args_is_help=True)
console = Console()

Repository = Annotated[str, typer.Argument(help="OWNER/NAME")]
Number = Annotated[int, typer.Argument(help="Number of the pull request.")]
Numbers = Annotated[list[int], typer.Argument(help="Numbers of the pull requests.")]
Agent = Annotated[str, typer.Option(help="Command that is run with a prompt file and a worktree.")]
PolicyFile = Annotated[Path | None, typer.Option("--policy", help="TOML file; `mergedog policy` prints the defaults.")]
StateFolder = Annotated[Path, typer.Option("--state", help="Folder of what is remembered.")]
Api = Annotated[str, typer.Option(help="Where the API is.")]
Remote = Annotated[str, typer.Option(help="Where git finds a repository, with {repository} for its name.")]
TokenVariable = Annotated[str, typer.Option(help="Variable that holds the token.")]

STATE = Path("~/.local/state/mergedog").expanduser()
API = "https://api.github.com"
REMOTE = "https://github.com/{repository}.git"


def _token(variable: str) -> Secret:
    value = os.environ.get(variable, "")
    if not value:
        raise typer.BadParameter(f"the variable {variable} has no token")
    return Secret(value)


def _folder(state: Path, repository: str) -> Path:
    return state / identifiers.repository(repository).replace("/", "+")


def _tell(phase: str, outcome: Outcome) -> None:
    match outcome:
        case Wait(who, why, _):
            line = Text.assemble((f"{who.value:16}", colour(who.value)), why)
        case Again(what):
            line = Text.assemble((f"{'mergedog':16}", "cyan"), what)
        case Done(why):
            line = Text.assemble((f"{'done':16}", "green"), why)
        case _:
            line = Text(phase)
    console.print(Text(time.strftime("%H:%M:%S  "), style="dim") + line)


@app.command()
def run(
    repository: Repository,
    number: Number,
    agent: Agent,
    policy: PolicyFile = None,
    state: StateFolder = STATE,
    api: Api = API,
    remote: Remote = REMOTE,
    token_variable: TokenVariable = "GITHUB_TOKEN",
) -> None:
    """Shepherd one pull request until a human has merged or closed it."""
    rules, token, clock = read_policy(policy), _token(token_variable), SystemClock()
    folder = _folder(state, repository)
    store = Store(folder / f"pull-{number}")
    governor = Governor(folder / "governor", rules.governor, clock)
    turnstile = Turnstile(governor, Attribution(folder / "calls.jsonl", number, clock))
    with ended_in_order(), store.locked(), closing(Transport(api, token, clock, turnstile)) as transport:
        tape = next_tape(store.folder)
        world = World(
            GitHub(transport, repository),
            GitRepository(store.folder / "clone.git", remote, repository, token),
            CommandAgent(agent, rules.agent.environment, (store.path,)),
            clock,
        )
        tape.begin(store.load(repository, number), rules)
        Shepherd(recorded(world, tape), rules, RecordedStore(store.folder, tape), repository, number, _tell).run()


@app.command()
def watch(
    repository: Repository,
    numbers: Numbers,
    agent: Agent,
    policy: PolicyFile = None,
    state: StateFolder = STATE,
    api: Api = API,
    remote: Remote = REMOTE,
    token_variable: TokenVariable = "GITHUB_TOKEN",
) -> None:
    """Shepherd many pull requests side by side, one process each."""
    read_policy(policy)
    _token(token_variable)
    options = ["--agent", agent, "--state", str(state), "--api", api, "--remote", remote]
    options += ["--token-variable", token_variable, *(["--policy", str(policy)] if policy else [])]

    def launch(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mergedog", "run", repository, str(number), *options]
        silent = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, preexec_fn=end_with_parent)

    kennel = Kennel(launch, SystemClock())
    try:
        with ended_in_order(), Live(console=console, refresh_per_second=1) as live:
            kennel.start(numbers)
            left = True
            while left:
                left = kennel.tend()
                states = [
                    each for each in read_states(_folder(state, repository), repository) if each.number in numbers
                ]
                live.update(status_table(states, time.time(), kennel.notes()))
                time.sleep(1)
    except KeyboardInterrupt:
        pass
    finally:
        kennel.stop()


@app.command()
def status(repository: Repository, state: StateFolder = STATE) -> None:
    """Print where each pull request stands, and who can unblock it."""
    console.print(status_table(read_states(_folder(state, repository), repository), time.time()))


@app.command("policy")
def print_policy() -> None:
    """Print the default policy, with comments."""
    sys.stdout.write(default_text())


@app.command()
def bundle(
    repository: Repository,
    number: Number,
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("mergedog-bundle.json"),
    state: StateFolder = STATE,
    token_variable: TokenVariable = "GITHUB_TOKEN",
) -> None:
    """Write the newest sessions to one scrubbed file, from which they can be played again."""
    value = os.environ.get(token_variable)
    count = write_bundle(_folder(state, repository) / f"pull-{number}", output, *([Secret(value)] if value else []))
    console.print(f"{count} sessions in {output}")


@app.command()
def replay(file: Annotated[Path, typer.Argument(help="A bundle.")]) -> None:
    """Play the sessions of a bundle again, and check that each goes as it went."""
    for place, session in enumerate(read_bundle(file)):
        result = replay_session(session)
        console.print(f"session {place}: {result.calls} calls, {len(result.looks)} looks, as recorded", style="green")
        for line in dict.fromkeys(result.looks):
            console.print(Text(f"  {line}"))


@app.command()
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Do not pause between lines.")] = False,
) -> None:
    """Show a pull request shepherded on a forge in memory."""
    width = None if shutil.get_terminal_size((0, 0)).columns else 100
    coloured = Console(force_terminal=None if os.environ.get("NO_COLOR") else True, width=width)
    raise typer.Exit(0 if play(coloured, 0.0 if fast else 0.25) else 1)


def main() -> None:
    """Run the command; what this program raises on purpose is told in one line."""
    try:
        app()
    except MergedogError as error:
        console.print(Text(f"mergedog: {error}", style="red"))
        sys.exit(1)
