"""init_ on models that others wrote, taken as they are: rtdl, transformers, x-transformers and MONAI, without weights.

The plan must name the role of each layer and what the model's own code shows that it reads; what is outside the theory
must be left alone.
"""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import gradwalk as gw  # noqa: E402
import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch import LayerRole  # noqa: E402


def package(name):
    return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)


def initialised(model, **options):
    """Return the plan and its rows, with every row checked against the weights, and all else against a copy."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plan = gwt.init_(model, generator=torch.Generator().manual_seed(0), keep_fine=False, **options)
    rows = {row.name: row for row in plan.rows}
    touched = {f"{row.name}.{kind}" for row in plan.drawn for kind in ("weight", "bias")}
    for name, value in model.state_dict().items():
        if name not in touched:
            assert torch.equal(value, before[name]), f"{name} was to be left alone"
    for row in plan.drawn:
        weight = model.get_parameter(f"{row.name}.weight").detach().double()
        assert abs(weight.square().mean().sqrt() / row.proposed - 1) < 4 * math.sqrt(0.5 / weight.numel())
    assert max(map(len, str(plan).splitlines())) <= 100
    return plan, rows


def left(plan):
    return {each.kind: each.why for each in plan.left_alone}


def drawn(plan):
    return [row.name for row in plan.drawn]


def test_rtdl_mlp_is_traced_and_its_dropout_counted():
    rtdl = package("rtdl_revisiting_models")
    model = rtdl.MLP(d_in=10, d_out=1, n_blocks=3, d_block=64, dropout=0.1)
    plan, rows = initialised(model)
    assert [row.activation for row in plan.rows] == ["linear", "relu", "relu", "relu"]
    assert all(row.exact and row.drift == 0.0 for row in plan.rows)
    assert rows["output"].gain == pytest.approx(gw.gain("relu", 64, dropout=0.1))
    assert plan.left_alone == ()


def test_rtdl_resnet_has_its_branches_scaled():
    rtdl = package("rtdl_revisiting_models")
    sizes = {"d_in": 10, "d_out": 1, "d_block": 32, "d_hidden": None, "d_hidden_multiplier": 2.0}
    plan, rows = initialised(rtdl.ResNet(n_blocks=4, dropout1=0.0, dropout2=0.0, **sizes))
    ends = [rows[f"blocks.{n}.linear2"] for n in range(4)]
    assert {row.role for row in ends} == {LayerRole.BRANCH}
    stream = gw.gain("linear", 10)  # what the branches, which begin with a norm, are scaled to
    assert [row.gain for row in ends] == pytest.approx([gw.gain("relu", 64) / math.sqrt(4) * stream] * 4)
    assert rows["blocks.1.linear1"].gain == pytest.approx(gw.gain("linear", 32))
    assert rows["output.linear"].role is LayerRole.HEAD
    assert "norm" in left(plan)["BatchNorm1d"]
    assert "stream of 4 branches" in plan.remarks[0]


def test_rtdl_ft_transformer_has_gates_of_known_law():
    rtdl = package("rtdl_revisiting_models")
    model = rtdl.FTTransformer(
        n_cont_features=4, cat_cardinalities=[3, 4], d_out=1, **rtdl.FTTransformer.get_default_kwargs(n_blocks=1)
    )
    plan, rows = initialised(model, example=(torch.ones(2, 4), torch.zeros(2, 2, dtype=torch.long)))
    assert rows["backbone.blocks.0.ffn.linear2"].activation == "gated relu"
    assert drawn(plan) == ["backbone.blocks.0.ffn.linear1", "backbone.blocks.0.ffn.linear2", "backbone.output.linear"]
    assert "softmax" in left(plan)["MultiheadAttention"]


def test_bert_keeps_attention_norms_and_embeddings():
    transformers = package("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes))
    with pytest.raises(ValueError, match=r"BertModel cannot be traced .*pass example="):
        gwt.init_(model)
    plan, rows = initialised(model, example={"input_ids": torch.arange(14).reshape(2, 7)})
    assert len(rows) == 3 * 2 + 1
    assert {row.activation for name, row in rows.items() if name.endswith("output.dense")} == {"gelu"}
    assert "attention" in rows["encoder.layer.0.intermediate.dense"].reason
    assert {"BertAttention", "LayerNorm", "Embedding"} == set(left(plan))


def test_gpt2_has_its_own_kind_of_linear_layer_and_a_tied_head():
    transformers = package("transformers")
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, **ends)
    model = transformers.GPT2LMHeadModel(config)
    plan, rows = initialised(model, example={"input_ids": torch.arange(14).reshape(2, 7)}, weights="orthogonal")
    expected = gw.gain("linear", 32, weights="orthogonal") / 32**0.5
    assert rows["transformer.h.0.mlp.c_fc"].proposed == pytest.approx(expected)
    assert rows["transformer.h.0.mlp.c_proj"].activation == "gelu"
    assert rows["transformer.h.0.mlp.c_proj"].gain < 0.05  # relative to a stream of embeddings of std 0.02
    assert "shared" in rows["lm_head"].reason
    assert "GPT2Attention" in left(plan)


def test_llama_reads_gated_products():
    transformers = package("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.LlamaConfig(vocab_size=50, bos_token_id=0, eos_token_id=0, **sizes)
    model = transformers.LlamaForCausalLM(config)
    _, rows = initialised(model, example={"input_ids": torch.arange(14).reshape(2, 7)})
    row = rows["model.layers.0.mlp.down_proj"]
    assert (row.activation, row.role) == ("gated silu", LayerRole.BRANCH)
    assert rows["model.layers.0.mlp.up_proj"].gain == pytest.approx(gw.gain("linear", 32))


def test_vit_starts_from_its_patches():
    transformers = package("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **sizes))
    plan, _ = initialised(model, example={"pixel_values": torch.ones(2, 3, 16, 16)})
    first = plan.rows[0]
    assert first.name == "embeddings.patch_embeddings.projection"
    assert first.proposed == pytest.approx(gw.gain("linear", 48) / 48**0.5)
    assert "cls_token" in left(plan)["ViTEmbeddings"]


def test_x_transformers_feed_forward_is_found_under_its_wrappers():
    x_transformers = package("x_transformers")
    decoder = x_transformers.Decoder(dim=32, depth=2, heads=2)
    model = x_transformers.TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=decoder)
    plan, _ = initialised(model, example=torch.arange(14).reshape(2, 7))
    assert [row.activation for row in plan.drawn] == ["linear", "gelu", "linear", "gelu", "linear"]
    assert "softmax" in left(plan)["Attention"]


def test_monai_fully_connected_net_is_exact():
    nets = package("monai.networks.nets")
    plan, _ = initialised(nets.FullyConnectedNet(10, 2, [8, 16, 8], act="relu"))
    assert [row.activation for row in plan.rows] == ["linear", "relu", "relu", "relu"]
    assert all(row.exact for row in plan.rows)


def test_monai_unet_is_left_alone_where_norms_follow():
    nets = package("monai.networks.nets")
    model = nets.UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2))
    plan, rows = initialised(model)
    same, _ = initialised(model, example=torch.ones(1, 1, 16, 16))
    assert [row.role for row in same.rows] == [row.role for row in plan.rows]
    assert {row.activation for row in plan.rows[1:]} == {"leaky_relu(0.25)"}
    assert drawn(plan) == ["model.2.conv"]
    assert rows["model.2.conv"].proposed == pytest.approx(gw.gain("leaky_relu(0.25)", 18) / 18**0.5)
    assert all(row.reason.startswith("a norm follows") for row in plan.rows[:-1])


def test_monai_basic_unet_is_not_mistraced():
    nets = package("monai.networks.nets")
    model = nets.BasicUNet(spatial_dims=2, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 8, 4))
    with pytest.raises(ValueError, match="reads 12 channels, and the trace has 4"):
        gwt.init_(model)
    plan, rows = initialised(model, example=torch.ones(1, 1, 32, 32))
    assert len(rows) == 23
    assert drawn(plan) == ["final_conv"]
    assert rows["upcat_4.convs.conv_0.conv"].reason == "it reads leaky_relu(0.1) and linear together"
