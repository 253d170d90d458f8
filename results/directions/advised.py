"""Write the spec of networks with the leak that `leak_for` proposes for each activation at that depth and width.

python results/directions/advised.py 1000 48 > advised.toml
gradwalk sweep run advised.toml --out advised --threads 1
"""

import sys

import gradwalk as gw

ACTIVATIONS = ("relu", "tanh", "gelu", "silu", "selu")


def main(depth: int, width: int) -> None:
    """Print the spec."""
    names = [gw.activation(name).leaking(gw.leak_for(name, width, depth)).name for name in ACTIVATIONS]
    print(f'name = "The proposed leak in {depth} layers, by activation"')
    print(f'data = "mnist"\nexamples = 10000\ndepth = {depth}\nwidth = {width}\nweights = "orthogonal"')
    print(f"activation = {names}".replace("'", '"'))
    print("rate = 3e-3\ndecay = 0.97\nepochs = 3\nseed = [0, 1, 2]")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
