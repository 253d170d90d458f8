"""Pairs of gradients through networks of blocks have the law of literal networks, and so has their number."""

import math

import numpy as np
import pytest
import torch
from helpers.literal import literal_block_pairs, literal_output
from scipy.stats import ks_2samp

import gradwalk as gw
from gradwalk.gains import backward_directions

WIDTH, DEPTH, NETWORKS = 10, 5, 500
KINDS = ["gradients", "inputs"]


def residual(activation, *, normed=None, dropout=0.0, scale=1.0):
    norms = [] if normed is None else [gw.norm(normed)]
    return gw.residual(*norms, gw.dense("linear"), gw.dense(activation, gain=1.3, dropout=dropout), scale=scale)


RESIDUALS = {
    "plain": {},
    "scaled": {"scale": DEPTH**-0.5},
    "layer norm": {"normed": "layer"},
    "rms norm, scaled": {"normed": "rms", "scale": DEPTH**-0.5},
    "dropout": {"dropout": 0.3, "scale": 0.5},
}
OTHERS = {
    "chain": gw.chain(gw.dense("relu", gain=1.4)),
    "dropout": gw.chain(gw.dense("tanh", gain=1.3, dropout=0.2), gw.dropout(0.2)),
    "bottle": gw.chain(gw.dense("tanh", gain=1.2, width=24), gw.dense("gelu", gain=1.4, width=WIDTH)),
    "neck": gw.residual(gw.norm("rms"), gw.dense(width=3), gw.dense("tanh", gain=1.3, width=WIDTH)),
    "groups": gw.residual(gw.norm("layer", groups=2), gw.dense(width=16), gw.dense("relu", width=WIDTH), skip=0.9),
    "post-norm": gw.chain(gw.residual(gw.dense("relu", gain=1.4)), gw.norm("rms")),
    "nested": gw.residual(gw.residual(gw.dense("tanh")), gw.dense("relu"), scale=0.5),
}


def assert_same_law(block, kind, weights, *, width=WIDTH, depth=DEPTH, seed=10):
    """Compare the final log-norms of both gradients, the angle between them, and that between the outputs."""
    literal = literal_block_pairs(block, width, depth, NETWORKS, seed, weights, inputs=1 + (kind == "inputs"))
    passing = np.isfinite(literal.first) & np.isfinite(literal.second)  # others are not sampled
    walks = gw.simulate(block, width, depth, walks=3 * NETWORKS, rng=seed, weights=weights, pair=kind)
    cosine = walks.pair.cosine[:, -1]
    sampled = [walks.final, walks.pair.log_norm[:, -1], cosine, walks.pair.signal_cosine[:, 0], walks.final * cosine]
    for left, right in zip(sampled, [*literal, literal.first * literal.cosine], strict=True):
        assert ks_2samp(left.round(5), right[passing].round(5)).pvalue > 0.01  # the branch may be dead: exact ties


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("place", "shape"), list(enumerate(RESIDUALS)))
@pytest.mark.parametrize(("row", "activation"), list(enumerate(["relu", "tanh", "gelu"])))
def test_pairs_through_residual_networks_have_the_law_of_literal_ones(row, activation, place, shape, kind):
    """Gaussian and orthogonal weights take turns."""
    weights = ("gaussian", "orthogonal")[(row + place) % 2]
    assert_same_law(residual(activation, **RESIDUALS[shape]), kind, weights)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OTHERS)
def test_pairs_through_other_blocks_have_the_law_of_literal_ones(name, kind, weights):
    assert_same_law(OTHERS[name], kind, weights, seed=4)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("kind", KINDS)
def test_branches_that_are_dead_at_one_input_leave_the_other_its_law(kind, weights):
    """Of 3 units, none passes a relu in an eighth of all cases; the fewest units that pairs can have."""
    assert_same_law(gw.residual(gw.dense("relu"), gw.dense("relu")), kind, weights, width=3, seed=7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_of_blocks_is_the_chain_of_its_activation(kind):
    """Two samplers, one with vectors and one with overlaps."""
    blocks = gw.simulate(gw.chain(gw.dense("tanh", gain=1.1)), 20, 30, walks=1500, rng=1, pair=kind, every=30)
    chain = gw.simulate("tanh", 20, 30, gain=1.1, walks=1500, rng=2, pair=kind, every=30)
    assert ks_2samp(blocks.pair.cosine[:, -1], chain.pair.cosine[:, -1]).pvalue > 0.01
    assert ks_2samp(blocks.pair.log_norm[:, -1], chain.pair.log_norm[:, -1]).pvalue > 0.01


def test_inputs_that_merge_stay_merged_in_blocks():
    walks = gw.simulate(gw.chain(gw.dense("relu", gain=1.4)), 8, 200, walks=20, rng=3, pair="inputs")
    assert np.abs(walks.pair.signal_cosine[:, 0]) == pytest.approx(np.ones(20), abs=1e-4)
    assert np.isfinite(walks.pair.log_norm).all()


def test_the_angle_of_gradients_stays_exact_however_small_it_becomes():
    pair = gw.simulate(gw.chain(gw.dense("linear")), 6, 400, walks=50, rng=3, pair="gradients", every=400).pair
    chain = gw.simulate("linear", 6, 400, gain=1.0, walks=200, rng=4, pair="gradients", every=400).pair
    assert pair.log_sine[:, -1].max() < -10
    error = math.hypot(pair.log_sine[:, -1].std() / math.sqrt(50), chain.log_sine[:, -1].std() / math.sqrt(200))
    assert abs(pair.log_sine[:, -1].mean() - chain.log_sine[:, -1].mean()) < 4 * error


def test_dropout_masks_of_two_inputs_are_independent_and_those_of_one_input_are_one():
    """Without weights the gradients are those at the top times the masks."""
    block = gw.dropout(0.5)
    inputs = gw.simulate(block, 200, 1, walks=200, rng=3, pair="inputs")
    gradients = gw.simulate(block, 200, 1, walks=200, rng=3, pair="gradients")
    apart = np.corrcoef(inputs.final, inputs.pair.log_norm[:, -1])[0, 1]
    assert abs(apart) < 4 / math.sqrt(200)
    assert abs(gradients.pair.cosine[:, -1]).mean() > 1.2 * abs(inputs.pair.cosine[:, -1]).mean()


def literal_directions(block, width, depth, networks, seed, weights):
    """Return the participation ratio of the Jacobian of each literal network."""
    start, x = literal_output(block, width, depth, networks, seed, weights)
    rows = [torch.autograd.grad(x[:, 0, i].sum(), start, retain_graph=True)[0][:, 0] for i in range(width)]
    squares = torch.linalg.svdvals(torch.stack(rows, dim=1)).numpy() ** 2
    return squares.sum(axis=1) ** 2 / (squares**2).sum(axis=1)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    ("width", "name"), [(8, "plain"), (8, "layer norm"), (20, "rms norm, scaled"), (20, "dropout")]
)
def test_residual_networks_pass_as_many_directions_as_literal_ones(width, name, weights):
    """At 8 units the frame fills the stream; at 20 it estimates the ratio with a bias of a few percent at most."""
    block, widths = residual("tanh", **RESIDUALS[name]), (width,) * (DEPTH + 1)
    mean, error = backward_directions(block, widths, weights, None, 400, 0)
    literal = literal_directions(block, width, DEPTH, 400, 7, weights)
    bias = 0.0 if width == 8 else 0.03
    assert abs(mean - literal.mean()) < 3 * math.hypot(error, literal.std() / 20) + bias * literal.mean()


def test_directions_of_blocks_are_counted_both_ways():
    plain = gw.directions(gw.residual(gw.dense("relu", gain=1.4)), 16, 20, networks=60)
    scaled = gw.directions(gw.residual(gw.dense("relu", gain=1.4), scale=20**-0.5), 16, 20, networks=60)
    assert scaled.backward > plain.backward + 4 * math.hypot(plain.standard_error, scaled.standard_error)
    assert scaled.forward > plain.forward
    assert scaled.gain is None
    assert ("gain g", "those of the block") in scaled.rows()
    assert repr(scaled).startswith("Directions(residual(dense(relu, gain=1.4), scale=0.223607), depth 20, gaussian: ")


def test_no_more_directions_pass_than_the_narrowest_place_has_units():
    neck = gw.directions(gw.chain(gw.dense(width=4), gw.dense(width=12)), 12, 2, weights="orthogonal", networks=20)
    skip = gw.directions(gw.residual(gw.dense(width=4), gw.dense(width=12), scale=0.1), 12, 2, networks=20)
    assert (neck.units, skip.units) == (4, 12)
    assert neck.backward <= 4 < skip.backward


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.directions(gw.residual(gw.dense()), 9, 5, gain=1.0), "directions: the weight layers of a block"),
        (lambda: gw.directions(gw.dense(width=5), 9, 5), "directions: a block that is repeated must return as many"),
        (lambda: gw.directions(gw.chain(gw.dense(width=2), gw.dense(width=9)), 9, 5), "directions: every layer must"),
    ],
)
def test_invalid_blocks_are_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call()
