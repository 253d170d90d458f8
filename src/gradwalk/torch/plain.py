"""The plan of a plain chain in which nothing speaks against any layer: the usual case, and a quick one."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

from gradwalk.chains.choices import Selection
from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate
from gradwalk.plans import LayerRole, PlanRow
from gradwalk.torch.laws import Law, unbiased_gains
from gradwalk.torch.layers import Layers, WeightLayer
from gradwalk.torch.sections import FINE, chain_serves
from gradwalk.torch.weight_layers import is_padded, shape_of


def is_plain(layers: Sequence[WeightLayer]) -> bool:
    """Return whether the laws of chains hold for all layers of a model without norms and sums, with nothing to note."""
    return all(
        layer.activation is not None
        and layer.objection is None
        and not layer.notes
        and not layer.log_factor
        and not is_padded(layer.module)
        for layer in layers
    )


def plain_rows(
    layers: Layers,
    weights: Weights,
    selection: Selection,
    keep_fine: bool,
    stds: Mapping[str, float],
    purposes: Mapping[str, str],
) -> tuple[list[PlanRow], dict[Law, GainEstimate]]:
    """Return the rows of a plain chain, and the gains of the laws that they follow."""
    steps = max(layers.depth - 1, 1)
    laws: dict[tuple[int, int, float], Law] = {}  # by what tells the laws of one model apart
    for layer in layers.weight_layers:
        key = (id(layer.activation), layer.fan_in, layer.dropout)
        if key not in laws and layer.activation is not None:
            laws[key] = Law(layer.activation, layer.fan_in, steps, weights, layer.dropout)
    estimates = unbiased_gains(laws.values())
    known = {
        key: (estimates[law].value, estimates[law].value / math.sqrt(law.fan_in), estimates[law].kind == "neutral")
        for key, law in laws.items()
    }
    rows: list[PlanRow] = []
    free = selection.only is None and not selection.skip
    for layer in layers.weight_layers:
        f, name = layer.activation, layer.name
        assert f is not None
        gain, proposed, exact = known[id(f), layer.fan_in, layer.dropout]
        shape = shape_of(layer.module)
        if weights == "orthogonal" and shape[0] > layer.fan_in:  # the gain is that of a square matrix
            exact = False
        reason = "" if free else selection.reason_against(name, type(layer.module))
        if not reason and name in purposes and not selection.names(name):
            reason = purposes[name]
        rows.append(PlanRow(name, shape, LayerRole.CHAIN, f.name, stds[name], proposed, gain, 0.0, exact, reason))
    if len(rows) > 1:
        read = {name for layer in layers.weight_layers for name in layer.reads}
        rows = [row if row.name in read else row._replace(role=LayerRole.HEAD) for row in rows]
    return (_fine(rows, selection) if keep_fine else rows), estimates


def _fine(rows: list[PlanRow], selection: Selection) -> list[PlanRow]:
    """Return the rows with the layers left alone if the chain as it is serves."""
    ratios = [math.log(row.std / row.proposed) if row.proposed and row.std and not row.reason else 0.0 for row in rows]
    if not chain_serves(accumulate(ratios)):
        return rows
    return [row if row.reason or selection.names(row.name) else row._replace(reason=FINE) for row in rows]
