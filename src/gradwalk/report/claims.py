"""The twelve claims of the paper, and ours: in short, the figures they rest on, and the function that judges them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradwalk.report import our_claims, simulated_claims, trained_claims
from gradwalk.report.finding import Finding, Tables


@dataclass(frozen=True)
class Claim:
    """A claim: figures are those that its judge looks at, errata the misprints of the paper that bear on it."""

    id: str
    words: str
    figures: tuple[str, ...]
    judge: Callable[[Tables], Finding]
    errata: tuple[str, ...] = ()

    @property
    def criterion(self) -> str:
        """When it holds, in part, or not: what the docstring of the judge says."""
        words = " ".join((self.judge.__doc__ or "").split())
        return words.removeprefix(f"{self.id}. ")


CLAIMS = (
    Claim(
        "C1",
        "With g = exp(1/(2N)) the mean of the linear walk stays at 0 (N = 100, D = 500).",
        ("fig1",),
        simulated_claims.mean_stays_at_zero,
        ("E4", "E8"),
    ),
    Claim(
        "C2",
        "Its variance grows linearly with depth, with the predicted slope, and as 1/N.",
        ("fig1",),
        simulated_claims.variance_grows_linearly,
        ("E1",),
    ),
    Claim(
        "C3",
        "The predicted g of linear and ReLU matches the simulated best g over N.",
        ("fig2",),
        simulated_claims.predicted_gains_match,
        ("E2", "E3"),
    ),
    Claim(
        "C4",
        "The best g of tanh lies between 1.1 and 1.3, above linear and below ReLU.",
        ("fig2",),
        simulated_claims.tanh_lies_between,
    ),
    Claim(
        "C5",
        "The range of serviceable g is wider for tanh than for linear or ReLU.",
        ("fig2",),
        simulated_claims.tanh_is_serviceable_more_widely,
    ),
    Claim(
        "C6",
        "Trained on MNIST, the best g is 1.1 to 1.4 for tanh and 1.4 to 1.55 for ReLU, at most depths.",
        ("fig3",),
        trained_claims.best_gain_is_in_range,
        ("E6", "E9"),
    ),
    Claim(
        "C7",
        "MNIST: depth 2 has the best training error, depths 16 and 32 come next.",
        ("fig4a",),
        trained_claims.shallowest_is_best,
        ("E6",),
    ),
    Claim(
        "C8",
        "Auto-encoder: the most shallow is best, and depth 128 only roughly 2x greater in error.",
        ("fig4b",),
        trained_claims.deep_autoencoder_is_close,
        ("E7",),
    ),
    Claim(
        "C9",
        "1000 layers reach about 50 training mistakes on MNIST (N = 249, g = 1.05).",
        ("fig4c",),
        trained_claims.a_thousand_layers_learn,
    ),
    Claim(
        "C10",
        "TIMIT: depth 16 has the best training error, depth 32 essentially tied.",
        ("fig4d",),
        trained_claims.sixteen_and_thirty_two_tie,
    ),
    Claim(
        "C11",
        "For very deep networks, varying the learning rates over depth is very important.",
        ("fig4a", "fig4b", "fig4c", "fig4d"),
        trained_claims.schedule_matters,
        ("E5",),
    ),
    Claim(
        "C12",
        "Almost every net with the right g and a fitting learning rate gets to zero or near-zero error, whatever its "
        "depth; g = 1 does not.",
        ("fig3", "fig4a"),
        trained_claims.right_gain_reaches_zero,
    ),
)


OUR_CLAIMS = (
    Claim(
        "I1",
        "From some depth on, random walk initialisation reaches a lower training loss in the same few steps than "
        "torch’s default, Xavier, Kaiming, orthogonal and LSUV.",
        ("initialisers",),
        our_claims.walk_is_lower_when_deep,
    ),
)


def findings(tables: Tables) -> list[tuple[Claim, Finding]]:
    """Return each claim of the paper with what came out of it, from the tables that there are."""
    return [(claim, claim.judge(tables)) for claim in CLAIMS]


def our_findings(tables: Tables) -> list[tuple[Claim, Finding]]:
    """Return the same for those claims of our own whose figures are there."""
    return [(claim, claim.judge(tables)) for claim in OUR_CLAIMS if set(claim.figures) & set(tables)]
