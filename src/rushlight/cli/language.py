"""`rushlight embed` and `rushlight chat`: models of folders as Hugging Face lays them out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rushlight.models import Embedder, Generator, ModelFolder, Sampling
from rushlight.models.tokens import Tokenizer
from rushlight.models.weights import KINDS
from rushlight.support.errors import require

Folder = Annotated[Path, typer.Argument(help="A folder with config.json, tokenizer.json and weights.")]


def embed(
    folder: Folder,
    texts: Annotated[list[str] | None, typer.Argument(help="The texts; without any, a line of the input each.")] = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="Print each vector as a line of JSON.")] = False,
) -> None:
    """Embed texts by an encoder like BERT: their vectors, or how similar they are.

    One text gives its vector, several a table of cosines.
    """
    given = texts or [line.rstrip("\n") for line in sys.stdin if line.strip()]
    require(bool(given), "A004", "embed: there is no text", hint="give texts as arguments, or lines as input")
    result = Embedder(ModelFolder(folder)).embed(given)
    if vectors or len(given) == 1:
        for vector in result:
            typer.echo(json.dumps([float(format(number, ".9g")) for number in vector.tolist()]))
        return
    unit = result / (result**2).sum(1, keepdims=True) ** 0.5
    table = Table(box=None)
    table.add_column("")
    for number in range(len(given)):
        table.add_column(str(number + 1), justify="right")
    for number, (text, cosines) in enumerate(zip(given, (unit @ unit.T).tolist(), strict=True), 1):
        label = text if len(text) <= 40 else text[:39] + "…"
        table.add_row(f"{number} {label}", *[f"{cosine:.3f}" for cosine in cosines])
    Console().print(table)


def chat(
    folder: Folder,
    prompt: Annotated[str | None, typer.Argument(help="What to say; without it, lines of the input in turn.")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer, at most.")] = 400,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest token; above 1 gets wild.")] = 0.7,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from so many of the likeliest tokens; 0 for all.")] = 40,
    top_p: Annotated[float, typer.Option(min=0, max=1, help="Draw from the likeliest that make up this part.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    weights: Annotated[
        str | None, typer.Option(help=f"Keep weights in one of {', '.join(KINDS)}.", show_default="as stored")
    ] = None,
    system: Annotated[str | None, typer.Option(help="What the model is told before the conversation.")] = None,
) -> None:
    """Talk to a decoder like Llama or GPT-2; its answer is shown as it is written.

    A model without a template of conversations continues the text.
    """
    model = ModelFolder(folder)
    tokenizer, generator = Tokenizer(model), Generator(model, weights)
    sampling = Sampling(temperature, top_k, top_p, seed)
    messages = [{"role": "system", "content": system}] if system else []
    for said in _turns(prompt):
        messages.append({"role": "user", "content": said})
        if tokenizer.template is None:
            numbers = tokenizer.encode(["".join([message["content"] for message in messages])])[0]
        else:
            numbers = tokenizer.encode_prompt(tokenizer.render(messages))
        messages.append({"role": "assistant", "content": _answer(tokenizer, generator, numbers, tokens, sampling)})


def _turns(prompt: str | None) -> Iterator[str]:
    """The given prompt, or lines of the input until it ends."""
    if prompt is not None:
        yield prompt
        return
    shown = sys.stdin.isatty()
    while True:
        typer.echo("> " if shown else "", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")


def _answer(tokenizer: Tokenizer, generator: Generator, prompt: list[int], most: int, sampling: Sampling) -> str:
    """Prints an answer as it comes, and on the error stream how fast it came."""
    times = [time.perf_counter()]

    def timed() -> Iterator[int]:
        for token in generator.generate(prompt, most, sampling):
            times.append(time.perf_counter())
            if token not in generator.ends:
                yield token

    parts: list[str] = []
    for part in tokenizer.stream(timed()):
        typer.echo(part, nl=False)
        sys.stdout.flush()
        parts.append(part)
    typer.echo()
    first, rest = times[1] - times[0], times[-1] - times[1]
    speed = f", then {(len(times) - 2) / rest:.1f} tokens/s" if len(times) > 2 else ""
    typer.echo(f"[{len(prompt)} tokens read in {first:.2f} s{speed}]", err=True)
    return "".join(parts)
