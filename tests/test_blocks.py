"""Networks of blocks: the sampler against literal networks and torch.autograd, and the scale of residual branches."""

import math

import numpy as np
import pytest
from helpers.literal import literal_walks
from scipy.stats import ks_2samp

import gradwalk as gw
from gradwalk.blocks import Block, output_width, scaled, weight_layers

WIDTH, DEPTH, NETWORKS = 12, 8, 600


def assert_same_law(
    block: Block, *, width: int = WIDTH, depth: int = DEPTH, weights: str = "gaussian", seed: int = 13
) -> None:
    """Compare the final log-norms of sampled and of literal networks: their distribution, mean and spread."""
    sampled = gw.simulate(block, width, depth, walks=NETWORKS, rng=seed, weights=weights).final
    literal = literal_walks(block, width, depth, NETWORKS, seed=seed, weights=weights)
    literal = literal[np.isfinite(literal)]  # a chain of which a layer is dead is not sampled
    assert ks_2samp(sampled, literal).pvalue > 0.01
    error = math.hypot(sampled.std(), literal.std()) / math.sqrt(NETWORKS)
    assert abs(sampled.mean() - literal.mean()) < 4 * error


def branch(activation: str, layers: int, normed: str | None, dropout: float = 0.0) -> list[Block]:
    parts: list[Block] = [] if normed is None else [gw.norm(normed)]
    parts += [gw.dense("linear")] * (layers - 1)
    return [*parts, gw.dense(activation, gain=1.3, dropout=dropout)]


@pytest.mark.parametrize("scale", [1.0, DEPTH**-0.5], ids=["plain", "scaled"])
@pytest.mark.parametrize("normed", [None, "layer", "rms"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_residual_networks_have_the_law_of_literal_ones(activation, layers, normed, scale):
    assert_same_law(gw.residual(*branch(activation, layers, normed), scale=scale))


@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("normed", [None, "layer"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_dropout_in_a_branch_has_the_law_of_literal_networks(activation, normed, dropout):
    assert_same_law(gw.residual(*branch(activation, 2, normed, dropout), scale=0.5))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_a_chain_with_dropout_has_the_law_of_literal_networks(activation, dropout, weights):
    assert_same_law(gw.dense(activation, gain=1.3, dropout=dropout), weights=weights)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    "block",
    [
        gw.chain(gw.dense("tanh", gain=1.2, width=24), gw.dense("gelu", gain=1.4, width=WIDTH)),
        gw.chain(gw.dense("tanh", gain=1.2, width=8), gw.dense("tanh", gain=1.4, width=WIDTH)),
        gw.residual(gw.norm("layer", groups=4), gw.dense("linear", width=32), gw.dense("tanh", width=WIDTH), skip=0.9),
        gw.chain(gw.residual(gw.dense("relu", gain=1.4)), gw.norm("rms")),
        gw.chain(gw.residual(gw.dense("tanh"), gw.dropout(0.2)), gw.norm("layer")),
        gw.residual(gw.residual(gw.dense("tanh")), gw.dense("relu"), scale=0.5),
    ],
    ids=["bottle", "neck", "groups", "post-norm", "dropout", "nested"],
)
def test_other_blocks_have_the_law_of_literal_ones(block, weights):
    assert_same_law(block, depth=6, weights=weights, seed=5)


def test_a_chain_is_the_repetition_of_one_dense_layer():
    """Two samplers, one with vectors and one with overlaps."""
    blocks = gw.simulate(gw.chain(gw.dense("tanh", gain=1.1)), 40, 60, walks=1500, rng=1)
    chain = gw.simulate("tanh", 40, 60, gain=1.1, walks=1500, rng=2)
    assert ks_2samp(blocks.final, chain.final).pvalue > 0.01


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(("activation", "dropout"), [("relu", 0.0), ("relu", 0.5), ("tanh", 0.5), ("hard_tanh", 0.0)])
def test_layers_that_nothing_passes_are_drawn_again_as_in_a_chain(activation, dropout, weights):
    layer = gw.dense(activation, gain=1.3, dropout=dropout)
    chain = gw.simulate(layer, 3, 10, walks=1500, rng=3, weights=weights)
    blocks = gw.simulate(gw.chain(layer, layer), 3, 5, walks=1500, rng=4, weights=weights)
    assert chain.resampled > 0
    assert blocks.resampled > 0
    assert ks_2samp(chain.final, blocks.final).pvalue > 0.01


def test_two_units_pass_where_a_norm_follows():
    """A single active unit only changes the length of the signal, which the norm removes: the gradient is 0."""
    block = gw.chain(gw.norm("rms"), gw.dense("relu", gain=1.4))
    literal = literal_walks(block, 8, 6, 2000, seed=1)
    walks = gw.simulate(block, 8, 6, walks=2000, rng=1)
    assert walks.resampled > 0
    assert ks_2samp(walks.final, literal[literal > -25]).pvalue > 0.01


@pytest.mark.parametrize(
    ("blocks", "normed", "scaled", "mean", "spread"),
    [
        (20, False, False, 6.8, 0.4),
        (20, False, True, 0.48, 0.10),
        (20, True, False, 1.5, 0.2),
        (20, True, True, 0.34, 0.10),
        (200, False, False, 68.9, 1.3),
        (200, False, True, 0.50, 0.09),
        (200, True, False, 2.7, 0.3),
        (200, True, True, 0.34, 0.09),
    ],
)
def test_the_drift_of_residual_networks_is_as_computed_before(blocks, normed, scaled, mean, spread):
    """ReLU branches of two layers at width 100: a table made with other code, of about 100 walks per entry."""
    parts = [gw.norm("layer")] * normed + [gw.dense("linear"), gw.dense("relu", gain=gw.gain("relu", 100))]
    block = gw.residual(*parts, scale=blocks**-0.5 if scaled else 1.0)
    walks = gw.simulate(block, 100, blocks, walks=150, rng=1, every=blocks)
    rounding = 0.05 if mean > 1 else 0.005
    assert abs(walks.mean - mean) < 4 * spread * math.sqrt(1 / 150 + 1 / 100) + rounding
    assert walks.spread == pytest.approx(spread, rel=0.4)


def test_a_dead_branch_passes_the_skip():
    """At width 1, ReLU is inactive half of the time."""
    walks = gw.simulate(gw.residual(gw.dense("relu")), 1, 3, walks=400, rng=0)
    assert np.isfinite(walks.final).all()
    assert (walks.final == 0).any()


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_a_norm_behind_a_dead_branch_returns_zero(weights):
    """Of 3 units, none passes a relu or one, whose length a norm removes, in half of all cases: the skip remains."""
    walks = gw.simulate(gw.residual(gw.dense("relu"), gw.norm("rms")), 3, 1, walks=800, rng=0, weights=weights)
    share = (np.abs(walks.final) < 1e-6).mean()
    assert abs(share - 1 / 2) < 4 * math.sqrt(1 / 4 / 800)


def test_a_branch_of_a_far_too_large_scale_still_has_finite_logarithms():
    block = gw.residual(gw.dense("linear"), gw.dense("relu"), scale=100.0)
    assert gw.simulate(block, 30, 400, walks=20, rng=0).mean > 1000


def test_walks_do_not_depend_on_the_number_kept():
    block = gw.residual(gw.norm("rms"), gw.dense("gelu"), scale=0.3)
    whole, few = (gw.simulate(block, 50, 12, walks=20, rng=4, every=every) for every in (1, 5))
    np.testing.assert_array_equal(few.log_norm, whole.log_norm[:, [0, 5, 10, 12]])


def test_the_repetition_of_a_block_prints_as_it_was_written():
    block = gw.residual(gw.norm("rms"), gw.dense("gelu", gain=1.5, dropout=0.1), scale=0.25)
    assert str(block) == "residual(norm(rms), dense(gelu, gain=1.5, dropout=0.1), scale=0.25)"
    assert repr(gw.simulate(block, 10, 2, walks=5, rng=0)).startswith("Walks(5 walks of residual(norm(rms)")


def test_weight_layers_come_in_the_order_of_the_forward_pass():
    block = gw.chain(gw.dense("tanh"), gw.residual(gw.dense("relu"), gw.dense("gelu")))
    assert [layer.activation.name for layer in weight_layers(block)] == ["tanh", "relu", "gelu"]
    assert output_width(gw.dense("relu", width=7), 3) == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gw.residual(), "residual: at least one part is needed"),
        (lambda: gw.chain("relu"), "chain: parts must be dense, norm, dropout, chain or residual, got 'relu'"),
        (lambda: gw.dense("relu", dropout=1.0), r"dense: dropout must be at least 0 and below 1, got dropout=1\.0"),
        (lambda: gw.dropout(-0.1), "dropout: rate must be at least 0"),
        (lambda: gw.norm("batch"), 'norm: kind must be "layer" or "rms"'),
        (lambda: gw.residual(gw.dense(), scale=0.0), "residual: scale must be positive"),
        (
            lambda: gw.simulate(gw.dense(), 10, 5, gain=1.0),
            "simulate: the weight layers of a block have their own gains",
        ),
        (lambda: gw.simulate("relu", 10, 5), "simulate: gain is missing"),
        (lambda: gw.simulate(gw.dense(), 10, 5, method="dense"), "by method='exact' only"),
        (lambda: gw.simulate(gw.dense(width=5), 10, 5), "must return as many units as it reads"),
        (lambda: gw.simulate(gw.residual(gw.dense(width=5)), 10, 5), "residual: the branch must return as many units"),
        (lambda: gw.simulate(gw.norm(groups=3), 10, 5), "norm: groups must divide the number of units"),
        (lambda: gw.simulate(gw.chain(gw.norm(), gw.dense("relu")), 1, 5, walks=5, rng=0), "nothing passes some block"),
        (lambda: gw.gain(gw.residual(gw.dense("relu")), 10, 5), "gradwalk.branch_scale returns the scale"),
        (lambda: gw.solve_gain(gw.chain(gw.norm(), gw.dense("relu")), 10, 5), "weight layers and no norms"),
        (lambda: gw.solve_gain(gw.dropout(0.1), 10, 5), "a block must have weight layers"),
        (lambda: gw.gain(gw.dense("relu"), 10, 5, dropout=0.1), "have their own dropout, got dropout=0.1"),
        (lambda: gw.gain(gw.dense("relu"), 10, 5, formula="paper"), "the paper prints no formula for blocks"),
        (lambda: gw.branch_scale("relu", 10, 0), "branch_scale: blocks must be at least 1"),
        (lambda: gw.branch_scale("relu", 10, 5, drift=0), "branch_scale: drift must be positive"),
    ],
)
def test_bad_input_is_one_sentence(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


# The gain of a block.


def test_the_gain_of_a_neutral_block_is_exact():
    block = gw.chain(gw.dense("relu", gain=2.0, width=24), gw.dense("leaky_relu(0.2)", dropout=0.3, width=12))
    estimate = gw.solve_gain(block, 12, 10)
    walks = gw.simulate(scaled(block, estimate.value), 12, 10, walks=2000, rng=9)
    assert estimate.standard_error == 0
    assert abs(walks.mean) < 4 * walks.standard_error
    assert walks.spread == pytest.approx(estimate.spread, rel=4 / math.sqrt(2 * 2000))


def test_the_gain_of_a_block_is_one_factor_on_all_its_gains():
    block = gw.chain(gw.dense("tanh", gain=0.5, width=24), gw.dense("elu", width=12), gw.dropout(0.1))
    estimate = gw.solve_gain(block, 12, 8, walks=600)
    walks = gw.simulate(scaled(block, estimate.value), 12, 8, walks=1000, rng=9)
    assert abs(walks.mean) < 4 * math.hypot(walks.standard_error, 16 * estimate.standard_error / estimate.value)
    assert gw.gain(gw.dense("tanh", gain=2.0), 20, 5) * 2 == pytest.approx(gw.gain("tanh", 20, 5), rel=1e-6)


def test_a_block_of_which_networks_drift_apart_is_reported():
    with pytest.warns(gw.UnsteadyWarning, match="is unsteady: the final log-norm has a spread of"):
        gw.gain(gw.chain(gw.dense("gelu")), 10, 15)


# The scale of branches.


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_the_branch_scale_gives_the_drift_that_was_asked_for(activation, weights):
    found = gw.branch_scale(activation, width=40, blocks=30, drift=0.7, weights=weights, walks=400)
    gain = math.exp(-gw.step(activation, 40, q=1.0).drift / 2)
    block = gw.residual(gw.dense("linear"), gw.dense(activation, gain=gain), scale=found.value)
    fresh = gw.simulate(block, 40, 30, walks=1500, rng=99, weights=weights)
    assert abs(fresh.mean - 0.7) < 4 * fresh.spread * math.sqrt(1 / 1500 + 1 / 400)
    assert fresh.spread == pytest.approx(found.spread, rel=0.2)


def test_the_branch_scale_falls_as_the_root_of_the_number_of_blocks():
    shallow, deep = (gw.branch_scale("relu", 50, blocks, walks=200) for blocks in (25, 100))
    assert shallow.value / deep.value == pytest.approx(2.0, rel=0.05)
    assert gw.branch_scale("relu", 50, 25, walks=200) == shallow


def test_a_block_of_ones_own_keeps_its_parts():
    block = gw.residual(gw.norm("layer"), gw.dense("linear"), gw.dense("gelu", gain=1.6))
    found = gw.branch_scale(block, 50, 40, drift=0.5, walks=300)
    fresh = gw.simulate(gw.residual(*block.branch.parts, scale=found.value), 50, 40, walks=1000, rng=7)
    assert abs(fresh.mean - 0.5) < 4 * fresh.spread * math.sqrt(1 / 1000 + 1 / 300)
    assert found.standard_error < 0.1 * found.value
