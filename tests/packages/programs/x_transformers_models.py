"""A decoder of x-transformers."""

from case import Case, draw_weights, drawn_ints
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper


def x_transformers() -> Case:
    """A language model with rotary positions and gated units."""
    decoder = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True)
    network = TransformerWrapper(num_tokens=53, max_seq_len=32, attn_layers=decoder)
    model = AutoregressiveWrapper(draw_weights(network))
    ids = drawn_ints(53, 2, 12)
    return Case(
        model,
        lambda: {"logits": network(ids)},
        lambda: model(ids),
        lambda: model.generate(ids[:, :4], 8, temperature=0.0),
        lambda compile: compile(network)(ids),
    )
