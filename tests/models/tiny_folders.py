"""Small folders as Hugging Face lays them out, with weights drawn by numpy for each name."""

import json
import zlib
from pathlib import Path

import numpy as np

import rushlight as rl

_DECODER = {"vocab_size": 97, "eos_token_id": 96, "bos_token_id": 1}
_LLAMA = {
    **_DECODER,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
_ENCODER = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "layer_norm_eps": 1e-12,
}
_STRETCHED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
DECODERS = {
    "llama": {"model_type": "llama", **_LLAMA},
    "llama-tied-stretched": {
        "model_type": "llama",
        **_LLAMA,
        "tie_word_embeddings": True,
        "rope_scaling": _STRETCHED,
        "head_dim": 8,
    },
    "qwen2": {"model_type": "qwen2", **_LLAMA},
    "mistral": {"model_type": "mistral", **_LLAMA, "sliding_window": None},
    "gpt2": {"model_type": "gpt2", **_DECODER, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128},
}
ENCODERS = {
    "bert": {"model_type": "bert", **_ENCODER},
    "roberta": {"model_type": "roberta", **_ENCODER, "type_vocab_size": 1, "pad_token_id": 1},
}
PROMPT = [5, 17, 42, 3, 88, 21, 60]
TEXTS = [[5, 17, 42], [88], [7, 8, 9, 10, 11, 12, 13, 14, 15]]


def draw(name, shape):
    """The weight of a name: near 1 for norms, else small."""
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32) * np.float32(0.15)
    norm = name.endswith("norm.weight") or any(part in name for part in ("ln_", "LayerNorm.weight", "layernorm"))
    return values + np.float32(1.0 if norm and name.endswith("weight") else 0.0)


def write_folder(path: Path, config, shapes):
    """Writes a folder; returns its path."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    weights = {name: rl.from_numpy(draw(name, tuple(shape))) for name, shape in shapes.items()}
    rl.save(weights, path / "model.safetensors")
    return path
