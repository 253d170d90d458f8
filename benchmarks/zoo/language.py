"""Models that read tokens: transformers of all orders of norm and sum, and state-space models."""

import torch
from torch import nn

from zoo.case import case
from zoo.tasks import VOCABULARY, MaskedToken, NextToken, Translation

ENCODER = "transformer encoder"
DECODER = "transformer decoder"
BOTH = "encoder-decoder"
STATE = "state space, recurrent"


@case(ENCODER, "transformers", MaskedToken())
def bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY + 1,
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=96,
            max_position_embeddings=32,
        )
    )


@case(ENCODER, "transformers", MaskedToken())
def deberta_v2() -> nn.Module:
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM

    return DebertaV2ForMaskedLM(
        DebertaV2Config(
            vocab_size=VOCABULARY + 1,
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=96,
            max_position_embeddings=32,
            relative_attention=True,
            position_biased_input=False,
            pos_att_type=["p2c", "c2p"],
        )
    )


@case(ENCODER, "torch", MaskedToken())
def torch_encoder() -> nn.Module:
    """torch's own encoder layers, which normalise after each sum."""
    layer = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(VOCABULARY + 1, 48), encoder, nn.Linear(48, VOCABULARY))


@case(DECODER, "transformers", NextToken())
def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=48, n_layer=3, n_head=4, use_cache=False)
    )


@case(DECODER, "transformers", NextToken())
def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=32,
            use_cache=False,
        )
    )


@case(DECODER, "transformers", NextToken())
def opt_post_norm() -> nn.Module:
    from transformers import OPTConfig, OPTForCausalLM

    return OPTForCausalLM(
        OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=48,
            ffn_dim=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            word_embed_proj_dim=48,
            max_position_embeddings=32,
            do_layer_norm_before=False,
            use_cache=False,
        )
    )


@case(DECODER, "transformers", NextToken())
def gpt_neox_parallel() -> nn.Module:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=VOCABULARY,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=32,
            use_cache=False,
        )
    )


@case(DECODER, "transformers", NextToken())
def mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=48,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            max_position_embeddings=32,
            use_cache=False,
        )
    )


@case(DECODER, "x-transformers", NextToken())
def x_transformer() -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    return TransformerWrapper(
        num_tokens=VOCABULARY,
        max_seq_len=32,
        attn_layers=Decoder(dim=48, depth=3, heads=4, attn_dim_head=12, ff_glu=True, rotary_pos_emb=True),
    )


@case(BOTH, "transformers", Translation())
def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=48,
            d_kv=12,
            d_ff=96,
            num_layers=2,
            num_heads=4,
            use_cache=False,
            decoder_start_token_id=0,
        )
    )


@case(BOTH, "transformers", Translation())
def bart() -> nn.Module:
    from transformers import BartConfig, BartForConditionalGeneration

    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=VOCABULARY,
            d_model=48,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=96,
            decoder_ffn_dim=96,
            max_position_embeddings=32,
            use_cache=False,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=0,
        )
    )


@case(STATE, "mambapy", NextToken())
def mamba() -> nn.Module:
    from mambapy.mamba import Mamba, MambaConfig, RMSNorm

    blocks = Mamba(MambaConfig(d_model=32, n_layers=2, d_state=8))
    return nn.Sequential(nn.Embedding(VOCABULARY, 32), blocks, RMSNorm(32, 1e-5), nn.Linear(32, VOCABULARY, bias=False))


@case(STATE, "transformers", NextToken())
def mamba_hf() -> nn.Module:
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(
        MambaConfig(vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False)
    )


@case(STATE, "s5-pytorch", NextToken())
def s5() -> nn.Module:
    from s5 import S5Block

    blocks = [S5Block(48, 32, bidir=False) for _ in range(2)]
    return nn.Sequential(nn.Embedding(VOCABULARY, 48), *blocks, nn.Linear(48, VOCABULARY))


@case(STATE, "torch", NextToken())
def lstm() -> nn.Module:
    class LanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 48)
            self.lstm = nn.LSTM(48, 64, num_layers=2, batch_first=True)
            self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, VOCABULARY))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(self.embedding(tokens))[0])

    return LanguageModel()
