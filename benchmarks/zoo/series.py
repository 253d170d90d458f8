"""Models that read time series and sound."""

from contextlib import redirect_stdout
from io import StringIO

import torch
from torch import nn

from zoo.case import case
from zoo.tasks import VOCABULARY, Forecast, Frames, Pitch, Separation, Transcript

FORECASTER = "forecaster"
SPEECH = "speech"


@case(FORECASTER, "nbeats-pytorch", Forecast())
def nbeats() -> nn.Module:
    from nbeats_pytorch.model import NBeatsNet

    class Forecaster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with redirect_stdout(StringIO()):  # it prints its blocks
                self.net = NBeatsNet(
                    stack_types=("trend", "seasonality", "generic"),
                    nb_blocks_per_stack=3,
                    forecast_length=12,
                    backcast_length=48,
                    thetas_dim=(4, 8, 8),
                    hidden_layer_units=64,
                )

        def forward(self, past: torch.Tensor) -> torch.Tensor:
            return self.net(past)[1]

    return Forecaster()


class Windows(nn.Module):
    """A model of neuralforecast that takes the past alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        """Return the forecasts."""
        nothing = dict.fromkeys(("futr_exog", "hist_exog", "stat_exog"))
        return self.net({"insample_y": past.unsqueeze(-1), "insample_mask": torch.ones_like(past), **nothing})


@case(FORECASTER, "neuralforecast", Forecast())
def doubly_residual_nbeats() -> nn.Module:
    from neuralforecast.models import NBEATS

    return Windows(
        NBEATS(12, 48, n_blocks=[2, 2, 2], mlp_units=3 * [[64, 64]], random_seed=torch.initial_seed() % 2**32)
    )


@case(FORECASTER, "neuralforecast", Forecast())
def nhits() -> nn.Module:
    from neuralforecast.models import NHITS

    return Windows(
        NHITS(12, 48, n_blocks=[2, 2, 2], mlp_units=3 * [[64, 64]], random_seed=torch.initial_seed() % 2**32)
    )


@case(FORECASTER, "neuralforecast", Forecast())
def tide() -> nn.Module:
    """Without its norms, of which the last is over a single number and stops the gradient."""
    from neuralforecast.models import TiDE

    net = TiDE(
        12,
        48,
        hidden_size=64,
        decoder_output_dim=8,
        num_encoder_layers=2,
        num_decoder_layers=2,
        layernorm=False,
        random_seed=torch.initial_seed() % 2**32,
    )
    return Windows(net)


@case(FORECASTER, "transformers", Forecast(channels=4, batch=8))
def patchtst() -> nn.Module:
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    return PatchTSTForPrediction(
        PatchTSTConfig(
            num_input_channels=4,
            context_length=48,
            prediction_length=12,
            patch_length=8,
            patch_stride=8,
            d_model=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            ffn_dim=64,
            loss="mse",
        )
    )


@case(FORECASTER, "transformers", Forecast(channels=4, batch=8))
def patch_tsmixer() -> nn.Module:
    from transformers import PatchTSMixerConfig, PatchTSMixerForPrediction

    return PatchTSMixerForPrediction(
        PatchTSMixerConfig(
            num_input_channels=4,
            context_length=48,
            prediction_length=12,
            patch_length=8,
            patch_stride=8,
            d_model=32,
            num_layers=4,
            loss="mse",
        )
    )


@case(FORECASTER, "pytorch-tsmixer", Forecast(channels=4))
def tsmixer() -> nn.Module:
    from torchtsmixer import TSMixer

    return TSMixer(48, 12, 4, num_blocks=4, ff_dim=32)


@case(SPEECH, "transformers", Pitch())
def wav2vec2() -> nn.Module:
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    return Wav2Vec2ForSequenceClassification(
        Wav2Vec2Config(
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
        )
    )


@case(SPEECH, "transformers", Transcript())
def whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=VOCABULARY,
            num_mel_bins=16,
            d_model=48,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=96,
            decoder_ffn_dim=96,
            max_source_positions=32,
            max_target_positions=32,
            use_cache=False,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=0,
        )
    )


@case(SPEECH, "conformer", Frames(32))
def conformer() -> nn.Module:
    from conformer import Conformer

    return Conformer(32, depth=2, dim_head=8, heads=4, conv_kernel_size=7)


@case(SPEECH, "asteroid", Separation())
def conv_tasnet() -> nn.Module:
    from asteroid.models import ConvTasNet

    return ConvTasNet(2, n_blocks=3, n_repeats=2, bn_chan=24, hid_chan=48, skip_chan=24, n_filters=32)


@case(SPEECH, "transformers", Pitch(800))
def encodec_encoder() -> nn.Module:
    """SEANet's encoder: residual convolutions with weight norm and ELU, and an LSTM."""
    from transformers import EncodecConfig, EncodecModel

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = EncodecConfig(num_filters=8, hidden_size=32, upsampling_ratios=[5, 4, 2], codebook_dim=32)
            self.encoder = EncodecModel(config).encoder
            self.head = nn.Linear(32, 8)

        def forward(self, sound: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(sound.unsqueeze(1)).mean(-1))

    return Classifier()
