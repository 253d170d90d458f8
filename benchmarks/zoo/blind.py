"""Models that were added after the rules of `init_` and `probe` were settled: their first outcome is a blind test.

results/models-blind.md has what came out before anything was changed because of them.
"""

import torch
from torch import nn

import zoo.torchvision_stub  # noqa: F401
from zoo.case import case
from zoo.images import AUTOENCODER, CONVNEXT, DIFFUSION, NORMED, PLAIN, VIT
from zoo.language import BOTH, DECODER, ENCODER, STATE
from zoo.series import FORECASTER, SPEECH, Windows
from zoo.tables import FLOW, GRAPH, RESIDUAL, TABULAR
from zoo.tasks import (
    VOCABULARY,
    Denoising,
    Density,
    Diffusion,
    Forecast,
    Graph,
    Images,
    MaskedToken,
    NextToken,
    Pitch,
    Segmentation,
    Separation,
    Table,
    Translation,
)


@case(NORMED, "efficientnet-pytorch", Images())
def efficientnet() -> nn.Module:
    from efficientnet_pytorch import EfficientNet
    from efficientnet_pytorch.utils import BlockDecoder, GlobalParams

    blocks = BlockDecoder.decode(["r1_k3_s11_e1_i32_o16_se0.25", "r2_k3_s22_e4_i16_o24_se0.25"])
    return EfficientNet(
        blocks,
        GlobalParams(
            width_coefficient=1.0,
            depth_coefficient=1.0,
            image_size=16,
            dropout_rate=0.2,
            num_classes=10,
            batch_norm_momentum=0.99,
            batch_norm_epsilon=1e-3,
            drop_connect_rate=0.2,
            depth_divisor=8,
            include_top=True,
        ),
    )


@case(NORMED, "timm", Images())
def conv_mixer() -> nn.Module:
    from timm.models.convmixer import ConvMixer

    return ConvMixer(dim=32, depth=4, kernel_size=5, patch_size=2, num_classes=10)


@case(NORMED, "torchvision", Images())
def shufflenet() -> nn.Module:
    from torchvision.models import ShuffleNetV2

    return ShuffleNetV2([2, 2, 2], [16, 32, 48, 64, 96], num_classes=10)


@case(PLAIN, "transformers", Images())
def big_transfer() -> nn.Module:
    """Standardised weights and group norms before the activations."""
    from transformers import BitConfig, BitForImageClassification

    config = BitConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[1, 2], num_groups=8, num_labels=10)
    return BitForImageClassification(config)


@case(CONVNEXT, "transformers", Images(32, noise=4.0, batch=8))
def convnext_v2() -> nn.Module:
    from transformers import ConvNextV2Config, ConvNextV2ForImageClassification

    config = ConvNextV2Config(
        hidden_sizes=[24, 32, 40, 48], depths=[1, 1, 1, 1], patch_size=2, image_size=32, num_labels=10
    )
    return ConvNextV2ForImageClassification(config)


@case(CONVNEXT, "timm", Images())
def pool_former() -> nn.Module:
    from timm.layers import GroupNorm1
    from timm.models.metaformer import MetaFormer, Pooling

    return MetaFormer(
        num_classes=10,
        depths=(1, 1, 2),
        dims=(24, 32, 48),
        token_mixers=Pooling,
        norm_layers=GroupNorm1,
        mlp_act=nn.GELU,
        layer_scale_init_values=1e-5,
        res_scale_init_values=None,
        use_mlp_head=False,
        downsample_norm=None,
        mlp_bias=True,
    )


@case(VIT, "timm", Images())
def cait() -> nn.Module:
    from timm.models.cait import Cait

    return Cait(img_size=16, patch_size=4, num_classes=10, embed_dim=48, depth=3, num_heads=4)


@case(VIT, "open_clip_torch", Images())
def clip_vision() -> nn.Module:
    from open_clip.transformer import VisionTransformer

    return VisionTransformer(image_size=16, patch_size=4, width=48, layers=3, heads=4, mlp_ratio=2.0, output_dim=10)


@case(VIT, "transformers", Images())
def dino_v2_swiglu() -> nn.Module:
    from transformers import Dinov2Config, Dinov2ForImageClassification

    return Dinov2ForImageClassification(
        Dinov2Config(
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            image_size=16,
            patch_size=4,
            use_swiglu_ffn=True,
            num_labels=10,
        )
    )


@case(AUTOENCODER, "monai", Segmentation(16))
def high_res_net() -> nn.Module:
    from monai.networks.nets import HighResNet

    layers = (
        {"name": "conv_0", "n_features": 8, "kernel_size": 3},
        {"name": "res_1", "n_features": 8, "kernels": (3, 3), "repeat": 2},
        {"name": "res_2", "n_features": 16, "kernels": (3, 3), "repeat": 2},
        {"name": "conv_1", "n_features": 32, "kernel_size": 1},
        {"name": "conv_2", "kernel_size": 1},
    )
    return HighResNet(2, 1, 1, layer_params=layers)


@case(AUTOENCODER, "monai", Segmentation(16))
def attention_unet() -> nn.Module:
    from monai.networks.nets import AttentionUnet

    return AttentionUnet(2, 1, 1, channels=(8, 16, 32), strides=(2, 2))


@case(AUTOENCODER, "diffusers", Denoising(16))
def autoencoder_kl() -> nn.Module:
    """Stable Diffusion's encoder and decoder, with the mean of the latent distribution between them."""
    from diffusers import AutoencoderKL

    class Means(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoencoderKL(
                1,
                1,
                down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
                block_out_channels=(8, 16),
                norm_num_groups=4,
                sample_size=16,
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x).sample

    return Means()


@case(DIFFUSION, "denoising-diffusion-pytorch", Diffusion(8))
def karras_unet() -> nn.Module:
    """Every layer preserves magnitudes: weights are normalised in each forward pass, sums are weighted."""
    from denoising_diffusion_pytorch import KarrasUnet

    class Levels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = KarrasUnet(
                image_size=8,
                dim=8,
                dim_max=16,
                channels=1,
                num_downsamples=1,
                num_blocks_per_stage=1,
                attn_res=(4,),
                fourier_dim=8,
                attn_dim_head=8,
            )

        def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            return self.net(x, time=time / 1000)

    return Levels()


@case(ENCODER, "transformers", MaskedToken())
def fourier_net() -> nn.Module:
    from transformers import FNetConfig, FNetForMaskedLM

    return FNetForMaskedLM(
        FNetConfig(
            vocab_size=VOCABULARY + 1,
            hidden_size=48,
            num_hidden_layers=3,
            intermediate_size=96,
            max_position_embeddings=32,
        )
    )


@case(ENCODER, "transformers", MaskedToken())
def modern_bert() -> nn.Module:
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    return ModernBertForMaskedLM(
        ModernBertConfig(
            vocab_size=VOCABULARY + 1,
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
            pad_token_id=0,
            attn_implementation="eager",
        )
    )


@case(DECODER, "transformers", NextToken())
def gemma_2() -> nn.Module:
    """Norms before and after each branch."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=VOCABULARY,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=12,
            max_position_embeddings=32,
            use_cache=False,
            attn_implementation="eager",
        )
    )


@case(DECODER, "transformers", NextToken())
def bloom() -> nn.Module:
    from transformers import BloomConfig, BloomForCausalLM

    return BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=48, n_layer=3, n_head=4, use_cache=False))


@case(DECODER, "transformers", NextToken())
def olmo_2() -> nn.Module:
    """Norms after each branch, before the sum."""
    from transformers import Olmo2Config, Olmo2ForCausalLM

    return Olmo2ForCausalLM(
        Olmo2Config(
            vocab_size=VOCABULARY,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=32,
            use_cache=False,
            pad_token_id=0,
        )
    )


@case(ENCODER, "linformer", MaskedToken())
def linformer() -> nn.Module:
    from linformer import LinformerLM

    return LinformerLM(num_tokens=VOCABULARY + 1, dim=48, seq_len=16, depth=3, k=8, heads=4)


@case(BOTH, "transformers", Translation())
def pegasus() -> nn.Module:
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    return PegasusForConditionalGeneration(
        PegasusConfig(
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
            eos_token_id=2,
            decoder_start_token_id=0,
        )
    )


@case(STATE, "Mega_pytorch", NextToken())
def mega() -> nn.Module:
    from mega_pytorch import Mega

    return Mega(
        num_tokens=VOCABULARY, dim=48, depth=2, ema_heads=4, attn_dim_qk=16, attn_dim_value=48, laplacian_attn_fn=True
    )


@case(STATE, "ncps", NextToken())
def closed_form_continuous() -> nn.Module:
    from ncps.torch import CfC

    class LanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 48)
            self.cell = CfC(48, 64, proj_size=VOCABULARY, backbone_units=64, backbone_layers=2)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.cell(self.embedding(tokens))[0]

    return LanguageModel()


@case(FORECASTER, "pytorch-tcn", Forecast(channels=4))
def temporal_convolutions() -> nn.Module:
    from pytorch_tcn import TCN

    class Forecaster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = TCN(4, [24] * 4, kernel_size=3, input_shape="NLC", use_norm=None, output_projection=48)

        def forward(self, past: torch.Tensor) -> torch.Tensor:
            return self.net(past)[:, -1].view(-1, 12, 4)

    return Forecaster()


@case(FORECASTER, "iTransformer", Forecast(channels=4, batch=16))
def inverted_transformer() -> nn.Module:
    from iTransformer import iTransformer

    class Forecaster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = iTransformer(
                num_variates=4, lookback_len=48, pred_length=12, dim=32, depth=3, heads=4, dim_head=8
            )

        def forward(self, past: torch.Tensor) -> torch.Tensor:
            return self.net(past)

    return Forecaster()


@case(FORECASTER, "neuralforecast", Forecast())
def bidirectional_tcn() -> nn.Module:
    from neuralforecast.models import BiTCN

    return Windows(BiTCN(12, 48, hidden_size=16, dropout=0.1, random_seed=torch.initial_seed() % 2**32))


@case(SPEECH, "demucs", Separation(batch=2))
def demucs() -> nn.Module:
    from demucs.demucs import Demucs

    class Mono(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Demucs(
                ["low", "high"],
                audio_channels=1,
                channels=8,
                depth=3,
                lstm_layers=1,
                norm_starts=2,
                norm_groups=2,
                resample=False,
                dconv_lstm=4,
                dconv_attn=4,
            )

        def forward(self, sound: torch.Tensor) -> torch.Tensor:
            return self.net(sound.unsqueeze(1)).squeeze(2)

    return Mono()


@case(SPEECH, "asteroid", Separation(batch=2))
def sudo_rm_rf() -> nn.Module:
    from asteroid.models import SuDORMRFNet

    return SuDORMRFNet(2, bn_chan=16, num_blocks=2, upsampling_depth=3, n_filters=32, stride=8, kernel_size=17)


@case(SPEECH, "transformers", Pitch())
def hubert_stable() -> nn.Module:
    """HuBERT with norms before the branches, and layer norms in the convolutions."""
    from transformers import HubertConfig, HubertForSequenceClassification

    return HubertForSequenceClassification(
        HubertConfig(
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=96,
            conv_dim=(24, 24, 24),
            conv_stride=(5, 4, 2),
            conv_kernel=(10, 8, 4),
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            num_labels=8,
            mask_time_prob=0.0,
            classifier_proj_size=32,
            do_stable_layer_norm=True,
            feat_extract_norm="layer",
        )
    )


@case(TABULAR, "tab-transformer-pytorch", Table(batch=16))
def feature_tokens() -> nn.Module:
    from tab_transformer_pytorch import FTTransformer

    class Numbers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = FTTransformer(
                categories=(), num_continuous=16, dim=32, dim_out=1, depth=2, heads=4, dim_head=8, attn_dropout=0.1
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x.new_zeros(len(x), 0, dtype=torch.long), x)

    return Numbers()


@case(RESIDUAL, "monai", Table())
def fully_connected() -> nn.Module:
    """A plain chain with PReLU and dropout."""
    from monai.networks.nets import FullyConnectedNet

    return FullyConnectedNet(16, 1, [64] * 8, dropout=0.1)


@case(RESIDUAL, "torchvision", Table())
def tanh_chain() -> nn.Module:
    from torchvision.ops import MLP

    return MLP(16, [*[64] * 30, 1], activation_layer=nn.Tanh)


@case(RESIDUAL, "torchvision", Table())
def silu_chain() -> nn.Module:
    from torchvision.ops import MLP

    return MLP(16, [*[64] * 16, 1], activation_layer=nn.SiLU)


@case(FLOW, "nflows", Density())
def masked_autoregressive_flow() -> nn.Module:
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation

    class LogDensity(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parts = [
                part
                for _ in range(3)
                for part in (ReversePermutation(8), MaskedAffineAutoregressiveTransform(8, 32, num_blocks=2))
            ]
            self.flow = Flow(CompositeTransform(parts), StandardNormal([8]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.flow.log_prob(x)

    return LogDensity()


@case(GRAPH, "torch-geometric", Graph())
def deep_gcn() -> nn.Module:
    """Graph convolutions in residual branches that begin with a norm."""
    from torch_geometric.nn import DeepGCNLayer, GENConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(8, 24)
            self.layers = nn.ModuleList(
                DeepGCNLayer(GENConv(24, 24, num_layers=2), nn.LayerNorm(24), nn.ReLU(), block="res+") for _ in range(4)
            )
            self.head = nn.Linear(24, 1)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.encoder(x)
            for layer in self.layers:
                x = layer(x, edges)
            return self.head(x)

    return Net()
