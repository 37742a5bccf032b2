"""Records what transformers computes of the small folders: `python tests/models/freeze_transformers.py`.

Where torch 2.13 and transformers 5.23 are installed. Greedy tokens of decoders, last hidden states of encoders.
"""

import json
from pathlib import Path

import torch
import transformers
from tiny_folders import DECODERS, ENCODERS, PROMPT, TEXTS, draw


def model_of(config, kind):
    """A model of transformers whose weights are drawn by name."""
    options = {name: value for name, value in config.items() if name != "model_type"}
    made = transformers.AutoConfig.for_model(config["model_type"], **options)
    made._attn_implementation = "eager"
    model = kind.from_config(made).eval()
    state = model.state_dict()
    tied = config.get("tie_word_embeddings", config["model_type"] == "gpt2")
    shapes = {name: list(value.shape) for name, value in state.items() if not (tied and name == "lm_head.weight")}
    drawn = {name: torch.from_numpy(draw(name, tuple(shape))) for name, shape in shapes.items()}
    model.load_state_dict(drawn, strict=False)
    model.tie_weights()
    return model, shapes


def main():
    """Writes the numbers beside this file."""
    found = {}
    for name, config in DECODERS.items():
        model, shapes = model_of(config, transformers.AutoModelForCausalLM)
        tokens = torch.tensor([PROMPT])
        written = model.generate(tokens, max_new_tokens=40, do_sample=False, eos_token_id=96, pad_token_id=0)
        logits = model(written).logits[0, -1]
        found[name] = {"shapes": shapes, "tokens": written[0, len(PROMPT) :].tolist(), "logits": logits[:8].tolist()}
    for name, config in ENCODERS.items():
        model, shapes = model_of(config, transformers.AutoModel)
        vectors = []
        for text in TEXTS:
            states = model(torch.tensor([text])).last_hidden_state[0]
            vectors.append(torch.nn.functional.normalize(states.mean(0), dim=0).tolist())
        found[name] = {"shapes": shapes, "vectors": vectors}
    Path(__file__).with_name("transformers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    with torch.no_grad():
        main()
