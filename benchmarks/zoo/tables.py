"""Models that read rows of a table, points of a plane or graphs, and flows."""

import torch
from torch import nn

from zoo.case import case
from zoo.tasks import Cloud, Density, Graph, Surface, Table

TABULAR = "tabular"
RESIDUAL = "residual MLP"
FIELD = "implicit representation"
FLOW = "flow"
GRAPH = "graph"


@case(TABULAR, "rtdl_revisiting_models", Table())
def rtdl_mlp() -> nn.Module:
    from rtdl_revisiting_models import MLP

    return MLP(d_in=16, d_out=1, n_blocks=6, d_block=64, dropout=0.1)


@case(TABULAR, "rtdl_revisiting_models", Table())
def rtdl_resnet() -> nn.Module:
    from rtdl_revisiting_models import ResNet

    return ResNet(
        d_in=16, d_out=1, n_blocks=4, d_block=48, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.2, dropout2=0.0
    )


@case(TABULAR, "rtdl_revisiting_models", Table(batch=32, trailing=1))
def ft_transformer() -> nn.Module:
    from rtdl_revisiting_models import FTTransformer

    return FTTransformer(
        n_cont_features=16,
        cat_cardinalities=[],
        d_out=1,
        n_blocks=3,
        d_block=32,
        attention_n_heads=4,
        attention_dropout=0.1,
        ffn_d_hidden=None,
        ffn_d_hidden_multiplier=4 / 3,
        ffn_dropout=0.1,
        residual_dropout=0.0,
    )


@case(TABULAR, "pytorch-tabnet", Table(batch=128))
def tabnet() -> nn.Module:
    from pytorch_tabnet.tab_network import TabNet

    return TabNet(16, 1, n_d=16, n_a=16, n_steps=2, group_attention_matrix=torch.eye(16))


@case(TABULAR, "tabm", Table(trailing=1))
def tabm() -> nn.Module:
    from tabm import TabM

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = TabM(
                n_num_features=16,
                d_out=1,
                n_blocks=3,
                d_block=64,
                k=8,
                dropout=0.1,
                arch_type="tabm",
                start_scaling_init="random-signs",
            )

        def forward(self, x: torch.Tensor, categories: None) -> torch.Tensor:
            return self.net(x, categories).mean(dim=1)

    return Mean()


@case(TABULAR, "rtdl_num_embeddings", Table())
def periodic_embeddings_mlp() -> nn.Module:
    from rtdl_num_embeddings import PeriodicEmbeddings
    from rtdl_revisiting_models import MLP

    mlp = MLP(d_in=16 * 8, d_out=1, n_blocks=3, d_block=64, dropout=0.1)
    return nn.Sequential(PeriodicEmbeddings(16, 8, lite=False), nn.Flatten(), mlp)


@case(RESIDUAL, "nflows", Table())
def nflows_residual_net() -> nn.Module:
    """Residual blocks without norms, whose last layers start at 0.001."""
    from nflows.nn.nets import ResidualNet

    return ResidualNet(16, 1, hidden_features=64, num_blocks=12)


@case(RESIDUAL, "normflows", Table())
def normflows_residual_net() -> nn.Module:
    from normflows.nets import ResidualNet

    return ResidualNet(16, 1, hidden_features=64, num_blocks=6, use_batch_norm=True)


@case(RESIDUAL, "x-mlps-pytorch", Table())
def residual_normed_mlp() -> nn.Module:
    from x_mlps_pytorch.residual_normed_mlp import ResidualNormedMLP

    return ResidualNormedMLP(48, depth=16, residual_every=2, dim_in=16, dim_out=1)


@case(RESIDUAL, "x-mlps-pytorch", Table())
def plain_mlp() -> nn.Module:
    """No sums at all: a deep chain, for which gradwalk is made."""
    from x_mlps_pytorch import MLP

    return MLP(16, *[64] * 12, 1)


@case(FIELD, "siren-pytorch", Surface())
def siren() -> nn.Module:
    from siren_pytorch import SirenNet

    return SirenNet(2, 48, 1, num_layers=4)


class LogDensity(nn.Module):
    """A flow whose forward pass returns log-densities."""

    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-density at each point."""
        return self.flow.log_prob(x)


@case(FLOW, "nflows", Density())
def nflows_realnvp() -> nn.Module:
    from nflows.flows import SimpleRealNVP

    return LogDensity(SimpleRealNVP(8, 48, num_layers=4, num_blocks_per_layer=2))


@case(FLOW, "normflows", Density())
def normflows_realnvp() -> nn.Module:
    import normflows as nf

    flows = []
    for _ in range(6):
        net = nf.nets.MLP([4, 48, 48, 8], init_zeros=True)
        flows += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(8, mode="shuffle")]
    return LogDensity(nf.NormalizingFlow(nf.distributions.DiagGaussian(8), flows))


@case(FLOW, "zuko", Density(64))
def zuko_spline_flow() -> nn.Module:
    import zuko

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = zuko.flows.NSF(8, transforms=2, hidden_features=(48, 48))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.flow().log_prob(x)

    return Flow()


@case(FLOW, "FrEIA", Density())
def glow_coupling() -> nn.Module:
    import math

    from FrEIA.framework import SequenceINN
    from FrEIA.modules import AllInOneBlock

    def subnet(width: int, out: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, out))

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inn = SequenceINN(8)
            for _ in range(6):
                self.inn.append(AllInOneBlock, subnet_constructor=subnet, permute_soft=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z, log_jacobian = self.inn(x)
            return log_jacobian - 0.5 * z.square().sum(dim=1) - 4 * math.log(2 * math.pi)

    return Flow()


@case(GRAPH, "torch-geometric", Graph())
def gin() -> nn.Module:
    from torch_geometric.nn import GIN

    return GIN(8, 48, num_layers=2, out_channels=1)


@case(GRAPH, "torch-geometric", Graph())
def gcn() -> nn.Module:
    from torch_geometric.nn import GCN

    return GCN(8, 48, num_layers=2, out_channels=1)


@case(GRAPH, "torch-geometric", Graph())
def gat() -> nn.Module:
    from torch_geometric.nn import GAT

    return GAT(8, 48, num_layers=3, out_channels=1, heads=4, norm="layer_norm", jk="cat")


@case(GRAPH, "egnn-pytorch", Cloud())
def egnn() -> nn.Module:
    from egnn_pytorch import EGNN

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([EGNN(8, m_dim=16, update_coors=False) for _ in range(3)])

        def forward(self, features: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                features, places = layer(features, places)
            return features

    return Layers()
