"""init_ on models that others wrote, taken as they are: rtdl, transformers, x-transformers and MONAI, without weights.

Their attention, norms and residual connections are outside the theory: the report must mark them, and the layers that
are initialised must have the fan-in and the activation that the model's own code shows.
"""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import gradwalk as gw  # noqa: E402
import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch import Note  # noqa: E402


def package(name):
    return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)


def initialised(model, **options):
    """Return the report, with every row checked against the weights, and all that is not in it against a copy."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = gwt.init_(model, generator=torch.Generator().manual_seed(0), **options)
    rows = {row.name: row for row in report.rows}
    touched = {f"{name}.{kind}" for name in rows for kind in ("weight", "bias")}
    for name, value in model.state_dict().items():
        if name not in touched:
            assert torch.equal(value, before[name]), f"{name} was to be left alone"
    for name, row in rows.items():
        weight = model.get_parameter(f"{name}.weight").double()
        assert abs(weight.square().mean().sqrt() / row.std - 1) < 4 * math.sqrt(0.5 / weight.numel())
    assert max(map(len, str(report).splitlines())) <= 100
    return report, rows


def left(report):
    return {each.kind: each.why for each in report.left_alone}


def test_rtdl_mlp_is_traced_and_exact():
    rtdl = package("rtdl_revisiting_models")
    model = rtdl.MLP(d_in=10, d_out=1, n_blocks=3, d_block=64, dropout=0.1)
    report, rows = initialised(model)
    assert [row.activation for row in report.rows] == ["linear", "relu", "relu", "relu"]
    assert all(row.exact and row.drift == 0.0 for row in report.rows)
    assert rows["output"].gain == pytest.approx(gw.gain("relu", 64))
    assert report.left_alone == ()


def test_rtdl_resnet_has_its_residual_connections_and_norms_named():
    rtdl = package("rtdl_revisiting_models")
    model = rtdl.ResNet(
        d_in=10, d_out=1, n_blocks=2, d_block=32, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0
    )
    report, rows = initialised(model)
    assert rows["blocks.1.linear1"].notes == (Note.NORM, Note.RESIDUAL)
    assert rows["blocks.0.linear2"].activation == "relu"
    assert all(row.drift is None for row in report.rows)
    assert "norm" in left(report)["BatchNorm1d"]


def test_rtdl_ft_transformer_asks_for_the_activation_of_its_gated_layers():
    rtdl = package("rtdl_revisiting_models")
    model = rtdl.FTTransformer(
        n_cont_features=4, cat_cardinalities=[3, 4], d_out=1, **rtdl.FTTransformer.get_default_kwargs(n_blocks=1)
    )
    example = (torch.ones(2, 4), torch.zeros(2, 2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"'backbone.blocks.0.ffn.linear2' reads is not known \(it reads a product"):
        gwt.init_(model, example=example)
    report, rows = initialised(model, example=example, activation="relu")
    assert Note.GIVEN in rows["backbone.blocks.0.ffn.linear2"].notes
    assert "softmax" in left(report)["MultiheadAttention"]


def test_bert_keeps_attention_norms_and_embeddings():
    transformers = package("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes))
    with pytest.raises(ValueError, match=r"BertModel cannot be traced .*pass example="):
        gwt.init_(model)
    report, rows = initialised(model, example={"input_ids": torch.arange(14).reshape(2, 7)})
    assert len(rows) == 12 * 2 + 1
    assert {row.activation for name, row in rows.items() if name.endswith("output.dense")} == {"gelu"}
    assert all(row.drift is None for row in report.rows)
    assert {"BertAttention", "LayerNorm", "Embedding"} == set(left(report))


def test_gpt2_has_its_own_kind_of_linear_layer_and_a_tied_head():
    transformers = package("transformers")
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, **ends)
    model = transformers.GPT2LMHeadModel(config)
    report, rows = initialised(model, example={"input_ids": torch.arange(14).reshape(2, 7)}, weights="orthogonal")
    assert rows["transformer.h.0.mlp.c_fc"].std == pytest.approx(gw.gain("linear", 32, weights="orthogonal") / 32**0.5)
    assert rows["transformer.h.0.mlp.c_proj"].activation == "gelu"
    assert "shared" in left(report)["Linear"]
    assert "GPT2Attention" in left(report)
    walk = gwt.probe(model.eval(), torch.arange(14).reshape(2, 7), lambda output: output.logits.square().sum())
    assert {f"transformer.h.0.{name}" for name in ("attn.c_attn", "mlp.c_fc", "mlp.c_proj")} < set(walk.layers)


def test_vit_starts_from_its_patches():
    transformers = package("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **sizes))
    report, _ = initialised(model, example={"pixel_values": torch.ones(2, 3, 16, 16)})
    first = report.rows[0]
    assert first.name == "embeddings.patch_embeddings.projection"
    assert first.std == pytest.approx(gw.gain("linear", 48) / 48**0.5)
    assert "cls_token" in left(report)["ViTEmbeddings"]


def test_x_transformers_feed_forward_is_found_under_its_wrappers():
    x_transformers = package("x_transformers")
    decoder = x_transformers.Decoder(dim=32, depth=2, heads=2)
    model = x_transformers.TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=decoder)
    report, _ = initialised(model, example=torch.arange(14).reshape(2, 7))
    assert [row.activation for row in report.rows] == ["linear", "gelu", "linear", "gelu", "linear"]
    assert all(row.drift is None for row in report.rows)
    assert "softmax" in left(report)["Attention"]


def test_monai_fully_connected_net_is_exact():
    nets = package("monai.networks.nets")
    report, _ = initialised(nets.FullyConnectedNet(10, 2, [8, 16, 8], act="relu"))
    assert [row.activation for row in report.rows] == ["linear", "relu", "relu", "relu"]
    assert all(row.exact for row in report.rows)


def test_monai_unet_reads_its_prelu_and_names_its_skips():
    nets = package("monai.networks.nets")
    model = nets.UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2))
    report, rows = initialised(model)
    same, _ = initialised(model, example=torch.ones(1, 1, 16, 16))
    assert same.rows == report.rows
    assert {row.activation for row in report.rows[1:]} == {"leaky_relu(0.25)"}
    assert rows["model.2.conv"].std == pytest.approx(gw.gain("leaky_relu(0.25)", 18) / 18**0.5)
    assert Note.RESIDUAL in rows["model.2.conv"].notes


def test_monai_basic_unet_is_not_mistraced():
    nets = package("monai.networks.nets")
    model = nets.BasicUNet(spatial_dims=2, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 8, 4))
    with pytest.raises(ValueError, match="reads 12 channels, and the trace has 4"):
        gwt.init_(model)
    with pytest.raises(ValueError, match=r"a sum of leaky_relu\(0.1\) and linear"):
        gwt.init_(model, example=torch.ones(1, 1, 32, 32))
    _, rows = initialised(model, activation="leaky_relu(0.1)", example=torch.ones(1, 1, 32, 32))
    assert len(rows) == 23
