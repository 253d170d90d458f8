"""Models that read images: classifiers with and without norms, auto-encoders, U-Nets and diffusion models."""

import torch
from torch import nn

import zoo.torchvision_stub  # noqa: F401
from zoo.case import case
from zoo.tasks import Denoising, Diffusion, Images, Segmentation

PLAIN = "vision without norms"
NORMED = "vision with batch norm"
CONVNEXT = "vision with layer norm"
VIT = "vision transformer"
MIXER = "vision MLP"
AUTOENCODER = "auto-encoder, U-Net"
DIFFUSION = "diffusion"


@case(PLAIN, "torchvision", Images(64, noise=1.0, batch=6))
def squeezenet() -> nn.Module:
    from torchvision.models import SqueezeNet

    return SqueezeNet("1_1", num_classes=10)


@case(PLAIN, "torchvision", Images())
def vgg() -> nn.Module:
    """The initialization is that of torchvision's VGG, whose own classifier has 120 million weights."""
    from torchvision.models.vgg import make_layers

    features = make_layers([32, "M", 64, "M", 96, 96, "M"])
    classifier = [nn.Linear(384, 128), nn.ReLU(True), nn.Dropout(), nn.Linear(128, 128), nn.ReLU(True), nn.Dropout()]
    model = nn.Sequential(features, nn.Flatten(), *classifier, nn.Linear(128, 10))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.zeros_(module.bias)
    return model


@case(PLAIN, "timm", Images())
def nf_resnet() -> nn.Module:
    from timm.models.nfnet import NfCfg, NormFreeNet

    cfg = NfCfg(depths=(1, 1, 2, 1), channels=(32, 48, 64, 96), stem_type="3x3", stem_chs=16, act_layer="relu")
    return NormFreeNet(cfg, num_classes=10)


@case(PLAIN, "timm", Images())
def nfnet_skipinit() -> nn.Module:
    from timm.models.nfnet import NfCfg, NormFreeNet

    cfg = NfCfg(
        depths=(1, 1, 2, 1),
        channels=(32, 48, 64, 96),
        stem_type="3x3",
        stem_chs=16,
        act_layer="gelu",
        gamma_in_act=True,
        skipinit=True,
        attn_layer="se",
        attn_kwargs={"rd_ratio": 0.5},
    )
    return NormFreeNet(cfg, num_classes=10)


@case(NORMED, "timm", Images())
def resnet() -> nn.Module:
    from timm.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, (1, 1, 1, 1), num_classes=10, channels=(16, 32, 64, 96), stem_width=16)


@case(NORMED, "torchvision", Images(noise=1.0))
def densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=8, block_config=(3, 4, 3), num_init_features=16, num_classes=10)


@case(NORMED, "torchvision", Images())
def mobilenet_v2() -> nn.Module:
    from torchvision.models import MobileNetV2

    blocks = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2], [6, 64, 2, 1]]
    return MobileNetV2(num_classes=10, width_mult=0.5, inverted_residual_setting=blocks)


@case(NORMED, "torchvision", Images())
def mobilenet_v3() -> nn.Module:
    from functools import partial

    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    conf = partial(InvertedResidualConfig, width_mult=1.0)
    blocks = [
        conf(16, 3, 16, 16, True, "RE", 1, 1),
        conf(16, 3, 48, 24, False, "RE", 2, 1),
        conf(24, 5, 64, 24, True, "HS", 1, 1),
        conf(24, 5, 96, 32, True, "HS", 2, 1),
    ]
    return MobileNetV3(blocks, last_channel=128, num_classes=10)


@case(NORMED, "timm", Images(noise=1.0))
def regnet() -> nn.Module:
    from timm.models.regnet import RegNet, RegNetCfg

    cfg = RegNetCfg(depth=6, w0=16, wa=16.0, wm=1.8, group_size=8, se_ratio=0.25, stem_width=16)
    return RegNet(cfg, num_classes=10)


@case(CONVNEXT, "timm", Images(32, noise=4.0, batch=8))
def convnext() -> nn.Module:
    from timm.models.convnext import ConvNeXt

    return ConvNeXt(num_classes=10, depths=(1, 1, 1, 1), dims=(24, 32, 40, 48), patch_size=2)


@case(VIT, "torchvision", Images())
def vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(16, 4, num_layers=3, num_heads=4, hidden_dim=48, mlp_dim=96, num_classes=10)


@case(VIT, "timm", Images())
def vit_layer_scale() -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(16, 4, num_classes=10, embed_dim=48, depth=4, num_heads=4, init_values=1e-4)


@case(VIT, "timm", Images())
def swin() -> nn.Module:
    from timm.models.swin_transformer import SwinTransformer

    return SwinTransformer(16, 2, num_classes=10, embed_dim=32, depths=(2, 1), num_heads=(2, 4), window_size=4)


@case(VIT, "vit-pytorch", Images())
def simple_vit() -> nn.Module:
    from vit_pytorch import SimpleViT

    return SimpleViT(image_size=16, patch_size=4, num_classes=10, dim=48, depth=3, heads=4, mlp_dim=96, dim_head=16)


@case(VIT, "perceiver-pytorch", Images())
def perceiver() -> nn.Module:
    from perceiver_pytorch import Perceiver

    class ChannelsLast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.perceiver = Perceiver(
                num_freq_bands=4,
                depth=1,
                max_freq=10.0,
                num_latents=8,
                latent_dim=48,
                latent_heads=4,
                cross_dim_head=16,
                latent_dim_head=16,
                num_classes=10,
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.perceiver(x.permute(0, 2, 3, 1))

    return ChannelsLast()


@case(MIXER, "mlp-mixer-pytorch", Images())
def mlp_mixer() -> nn.Module:
    from mlp_mixer_pytorch import MLPMixer

    return MLPMixer(image_size=16, channels=3, patch_size=4, dim=48, depth=4, num_classes=10)


@case(MIXER, "g-mlp-pytorch", Images())
def gmlp() -> nn.Module:
    from g_mlp_pytorch import gMLPVision

    return gMLPVision(image_size=16, patch_size=4, num_classes=10, dim=48, depth=4)


@case(MIXER, "timm", Images())
def res_mlp() -> nn.Module:
    """ResMLP: affine layers instead of norms, and layer scale."""
    from functools import partial

    from timm.models.mlp_mixer import Affine, MlpMixer, ResBlock

    block = partial(ResBlock, init_values=1e-4)
    return MlpMixer(10, 16, 3, 4, num_blocks=4, embed_dim=48, mlp_ratio=4, block_layer=block, norm_layer=Affine)


@case(AUTOENCODER, "monai", Denoising(16))
def monai_autoencoder() -> nn.Module:
    from monai.networks.nets import AutoEncoder

    return AutoEncoder(2, 1, 1, channels=(8, 16, 32), strides=(2, 2, 2), num_res_units=2, norm=None)


@case(AUTOENCODER, "monai", Denoising(16))
def monai_unet() -> nn.Module:
    from monai.networks.nets import UNet

    return UNet(2, 1, 1, channels=(8, 16, 32), strides=(2, 2), num_res_units=2)


@case(AUTOENCODER, "monai", Segmentation(16))
def segresnet() -> nn.Module:
    from monai.networks.nets import SegResNet

    return SegResNet(2, 8, in_channels=1, out_channels=1, blocks_down=(1, 1, 2), blocks_up=(1, 1))


@case(AUTOENCODER, "segmentation_models_pytorch", Segmentation(16))
def smp_unet() -> nn.Module:
    from segmentation_models_pytorch import Unet

    return Unet(
        "timm-mobilenetv3_small_minimal_100",
        encoder_depth=3,
        encoder_weights=None,
        decoder_channels=(32, 16, 8),
        in_channels=1,
    )


@case(AUTOENCODER, "diffusers", Denoising(16))
def autoencoder_tiny() -> nn.Module:
    """TAESD's encoder and decoder, residual blocks without norms, and without the rounding between them."""
    from diffusers import AutoencoderTiny

    channels, blocks = (32, 32), (1, 2)
    model = AutoencoderTiny(
        1,
        1,
        encoder_block_out_channels=channels,
        decoder_block_out_channels=channels,
        num_encoder_blocks=blocks,
        num_decoder_blocks=blocks[::-1],
    )
    return nn.Sequential(model.encoder, model.decoder)


@case(AUTOENCODER, "neuraloperator", Denoising(16))
def fourier_neural_operator() -> nn.Module:
    from neuralop.models import FNO

    return FNO((6, 6), in_channels=1, out_channels=1, hidden_channels=16, n_layers=4)


@case(DIFFUSION, "diffusers", Diffusion(16))
def unet2d() -> nn.Module:
    from diffusers import UNet2DModel

    return UNet2DModel(
        16,
        1,
        1,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )


@case(DIFFUSION, "denoising-diffusion-pytorch", Diffusion(8))
def ddpm_unet() -> nn.Module:
    from denoising_diffusion_pytorch import Unet

    return Unet(8, dim_mults=(1, 2), channels=1, attn_dim_head=8, attn_heads=2)


@case(DIFFUSION, "diffusers", Diffusion(16))
def diffusion_transformer() -> nn.Module:
    from diffusers import DiTTransformer2DModel

    class Unconditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = DiTTransformer2DModel(
                4,
                12,
                in_channels=1,
                num_layers=3,
                sample_size=16,
                patch_size=4,
                num_embeds_ada_norm=2,
                norm_num_groups=8,
            )

        def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            return self.transformer(x, time, class_labels=torch.zeros_like(time)).sample

    return Unconditional()
