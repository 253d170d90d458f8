"""What to change where too few directions pass: orthogonal weights, a leak, a smaller signal, at what price."""

from gradwalk.remedies.advice import Advice, Remedy, advise
from gradwalk.remedies.families import ENOUGH, leak_for

__all__ = ["ENOUGH", "Advice", "Remedy", "advise", "leak_for"]
