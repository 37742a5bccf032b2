"""Models of transformers, small."""

import torch
from case import Case, draw_weights, drawn, drawn_ints
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

VOCABULARY = 97


def bert() -> Case:
    """A classifier of sentences, with padding."""
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
    )  # fmt: skip
    model = draw_weights(BertForSequenceClassification(config))
    ids = drawn_ints(VOCABULARY, 3, 11)
    mask = torch.ones(3, 11, dtype=torch.long)
    mask[1, 7:] = 0
    labels = torch.tensor([0, 2, 1])

    def forward(model=model):
        return model(input_ids=ids, attention_mask=mask).logits

    return Case(
        model,
        lambda: {"logits": forward()},
        lambda: model(input_ids=ids, attention_mask=mask, labels=labels).loss,
        compiled=lambda compile: forward(compile(model)),
    )


def _causal(model: torch.nn.Module) -> Case:
    ids = drawn_ints(VOCABULARY, 2, 9, low=3)
    prompt = ids[:, :5]
    return Case(
        model,
        lambda: {"logits": model(input_ids=ids).logits},
        lambda: model(input_ids=ids, labels=ids).loss,
        lambda: model.generate(prompt, max_new_tokens=8, do_sample=False),
        lambda compile: compile(model)(input_ids=ids, use_cache=False).logits,
    )


def gpt2() -> Case:
    """A language model that writes on."""
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return _causal(draw_weights(GPT2LMHeadModel(config)))


def llama() -> Case:
    """A language model with grouped queries that writes on."""
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return _causal(draw_weights(LlamaForCausalLM(config)))


def t5() -> Case:
    """An encoder and a decoder."""
    config = T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = draw_weights(T5ForConditionalGeneration(config))
    ids, labels = drawn_ints(VOCABULARY, 2, 9, low=2), drawn_ints(VOCABULARY, 2, 6, low=2, seed=3)
    return Case(
        model,
        lambda: {"logits": model(input_ids=ids, labels=labels).logits},
        lambda: model(input_ids=ids, labels=labels).loss,
        lambda: model.generate(ids, max_new_tokens=6, do_sample=False),
        lambda compile: compile(model)(input_ids=ids, labels=labels, use_cache=False).logits,
    )


def vit() -> Case:
    """A classifier of images by patches."""
    config = ViTConfig(
        image_size=16, patch_size=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=5,
    )  # fmt: skip
    model = draw_weights(ViTForImageClassification(config))
    pixels, labels = drawn(3, 3, 16, 16), torch.tensor([4, 0, 2])
    return Case(
        model,
        lambda: {"logits": model(pixel_values=pixels).logits},
        lambda: model(pixel_values=pixels, labels=labels).loss,
        compiled=lambda compile: compile(model)(pixel_values=pixels).logits,
    )


def whisper() -> Case:
    """Text from the spectrum of speech."""
    config = WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_source_positions=12, max_target_positions=16, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    model = draw_weights(WhisperForConditionalGeneration(config))
    features, labels = drawn(2, 8, 24), drawn_ints(VOCABULARY, 2, 6, low=4)
    return Case(
        model,
        lambda: {"logits": model(input_features=features, labels=labels).logits},
        lambda: model(input_features=features, labels=labels).loss,
        compiled=lambda compile: compile(model)(input_features=features, labels=labels, use_cache=False).logits,
    )


def clip() -> Case:
    """Images and sentences in one space."""
    text = {
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1,
        "pad_token_id": 0,
    }  # fmt: skip
    vision = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16,
        "patch_size": 4,
    }  # fmt: skip
    model = draw_weights(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)))
    ids, pixels = drawn_ints(VOCABULARY, 3, 7, low=3), drawn(3, 3, 16, 16)
    ids[:, -1] = 2

    def outputs() -> dict[str, object]:
        result = model(input_ids=ids, pixel_values=pixels)
        return {"image": result.image_embeds, "text": result.text_embeds, "logits": result.logits_per_text}

    return Case(
        model,
        outputs,
        lambda: model(input_ids=ids, pixel_values=pixels, return_loss=True).loss,
        compiled=lambda compile: compile(model)(input_ids=ids, pixel_values=pixels).logits_per_text,
    )
