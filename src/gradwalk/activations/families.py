"""The built-in activations, one record each: how it is built, its other names, its counterparts in the frameworks.

To add one, write a builder and append a `Family` to `BUILT_IN`; nothing else has to know it. Frameworks are named by
strings only, so that the core imports none of them.
"""

import math
from functools import partial

import numpy as np
import scipy

from gradwalk.activations.functions import Activation, Array, written
from gradwalk.activations.records import Counterpart, Family

# Builders.

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _with_parameter(name: str, value: float, default: float) -> str:
    return name if value == default else f"{name}({written(value)})"


def _is_positive(a: Array) -> Array:
    a = np.asarray(a)
    return (a > 0).astype(a.dtype)


def _sech_squared(a: Array) -> Array:
    tail = np.asarray(-2.0 * np.abs(a))
    np.exp(tail, out=tail)  # neither overflows nor underflows, where 1 - tanh(a)**2 is already 0
    squared = np.asarray(1.0 + tail)
    squared *= squared
    np.divide(tail, squared, out=tail)
    tail *= 4.0
    result: Array = tail[()]  # a number for a number
    return result


def _linear() -> Activation:
    return Activation("linear", lambda a: a, np.ones_like, leaked=lambda leak: _LINEAR.member())


def _relu() -> Activation:
    return Activation("relu", lambda a: np.maximum(a, 0), _is_positive, (0.0,), leaked=_LEAKY_RELU.member)


def _leaky_relu(slope: float) -> Activation:
    return Activation(
        f"leaky_relu({written(slope)})",
        lambda a: np.where(a > 0, a, slope * a),
        lambda a: slope + (1 - slope) * _is_positive(a),
        (0.0,),
        leaked=lambda leak: _LEAKY_RELU.member(leak + (1 - leak) * slope),
    )


def _elu(alpha: float) -> Activation:
    return Activation(
        _with_parameter("elu", alpha, 1.0),
        lambda a: np.maximum(a, 0) + alpha * np.expm1(np.minimum(a, 0)),
        lambda a: np.where(a > 0, 1.0, alpha * np.exp(np.minimum(a, 0))),
        (0.0,),
        slope_given=lambda a, h: np.minimum(h, 0) + alpha + (1 - alpha) * _is_positive(a),
    )


def _celu(alpha: float) -> Activation:
    return Activation(
        _with_parameter("celu", alpha, 1.0),
        lambda a: np.maximum(a, 0) + alpha * np.expm1(np.minimum(a, 0) / alpha),
        lambda a: np.where(a > 0, 1.0, np.exp(np.minimum(a, 0) / alpha)),
        (0.0,),
        slope_given=lambda a, h: np.minimum(h, 0) / alpha + 1,
    )


def _selu() -> Activation:
    elu, alpha = _elu(_SELU_ALPHA), _SELU_SCALE * _SELU_ALPHA
    return Activation(
        "selu",
        lambda a: _SELU_SCALE * elu.f(a),
        lambda a: _SELU_SCALE * elu.derivative(a),
        (0.0,),
        slope_given=lambda a, h: np.minimum(h, 0) + alpha + (_SELU_SCALE - alpha) * _is_positive(a),
    )


def _softplus(beta: float) -> Activation:
    return Activation(
        _with_parameter("softplus", beta, 1.0),
        lambda a: _log_sum(beta * a) / beta,
        lambda a: scipy.special.expit(beta * a),
        slope_given=lambda a, h: -np.expm1(-beta * h),
    )


def _log_sum(a: Array) -> Array:
    """Return ln(1 + e^a), in a tenth of the time of np.logaddexp."""
    return np.asarray(np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a))))


def _sigmoid() -> Activation:
    return Activation("sigmoid", scipy.special.expit, lambda a: scipy.special.expit(a) * scipy.special.expit(-a))


def _log_sigmoid() -> Activation:
    return Activation(
        "log_sigmoid", lambda a: -_log_sum(-a), lambda a: scipy.special.expit(-a), slope_given=lambda a, h: -np.expm1(h)
    )


def _share(a: Array, h: Array, at_zero: float = 0.5) -> Array:
    """Return the share of a that passes, h / a."""
    return np.asarray(np.divide(h, a, out=np.full_like(h, at_zero), where=np.not_equal(a, 0)))


def _gelu() -> Activation:
    def density(a: Array) -> Array:
        return np.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)

    return Activation(
        "gelu",
        lambda a: a * scipy.special.ndtr(a),
        lambda a: scipy.special.ndtr(a) + a * density(a),
        slope_given=lambda a, h: _share(a, h) + a * density(a),
    )


def _silu() -> Activation:
    def derivative(a: Array) -> Array:
        rise = scipy.special.expit(a)
        return np.asarray(rise * (1 + a * scipy.special.expit(-a)))

    def slope_given(a: Array, h: Array) -> Array:
        rise = _share(a, h)
        return np.asarray(rise + h * (1 - rise))

    return Activation("silu", lambda a: a * scipy.special.expit(a), derivative, slope_given=slope_given)


def _mish() -> Activation:
    softplus = _softplus(1.0)

    def derivative(a: Array) -> Array:
        bend = softplus.f(a)
        return np.asarray(np.tanh(bend) + a * _sech_squared(bend) * scipy.special.expit(a))

    def slope_given(a: Array, h: Array) -> Array:
        share = _share(a, h, at_zero=0.6)
        return np.asarray(share + a * (1 - share * share) * scipy.special.expit(a))

    return Activation("mish", lambda a: a * np.tanh(softplus.f(a)), derivative, slope_given=slope_given)


def _erf() -> Activation:
    return Activation("erf", lambda a: scipy.special.erf(a), lambda a: 2 / math.sqrt(math.pi) * np.exp(-a * a))


def _hard_tanh() -> Activation:
    return Activation("hard_tanh", lambda a: np.clip(a, -1, 1), lambda a: _is_positive(1 - np.abs(a)), (-1.0, 1.0))


def _relu6() -> Activation:
    return Activation("relu6", lambda a: np.clip(a, 0, 6), lambda a: _is_positive(3 - np.abs(a - 3)), (0.0, 6.0))


def _hard_sigmoid() -> Activation:
    def derivative(a: Array) -> Array:
        return _is_positive(3 - np.abs(a)) / 6

    return Activation("hard_sigmoid", lambda a: np.clip(a + 3, 0, 6) / 6, derivative, (-3.0, 3.0))


def _hard_swish() -> Activation:
    def derivative(a: Array) -> Array:
        return np.where(np.abs(a) < 3, (2 * a + 3) / 6, _is_positive(a))

    return Activation("hard_swish", lambda a: a * (np.clip(a + 3, 0, 6) / 6), derivative, (-3.0, 3.0))


def _softsign() -> Activation:
    return Activation("softsign", lambda a: a / (1 + np.abs(a)), lambda a: (1 + np.abs(a)) ** -2, (0.0,))


# The table.


def _called(*names: str) -> tuple[Counterpart, ...]:
    return tuple(Counterpart(name) for name in names)


_slope, _alpha = partial(Counterpart, parameter="negative_slope"), partial(Counterpart, parameter="alpha")
_unit_bounds = (("min_val", -1.0), ("max_val", 1.0))


def _clamped(least: float, most: float | None) -> tuple[Counterpart, ...]:
    """Return torch's functions that bound numbers by these."""
    bounds = ("min", least), ("max", most)
    return tuple(Counterpart(name, fixed=bounds, omitted=False) for name in ("clamp", "clip"))


_LINEAR = Family(
    "linear",
    _linear,
    aliases=("identity", "none"),
    torch_modules=_called("Identity"),
    jax=_called("jax.nn.identity"),
    keras=_called("keras.activations.linear"),
)
_LEAKY_RELU = Family(
    "leaky_relu",
    _leaky_relu,
    default=0.01,
    positive=False,
    torch_modules=(_slope("LeakyReLU"), Counterpart("PReLU", "weight")),
    torch_functions=(_slope("leaky_relu"),),
    jax=(_slope("jax.nn.leaky_relu"),),
    keras=(_slope("keras.activations.leaky_relu", default=0.2),),  # over 200 layers, 0.01 is off by a factor of 50
)

BUILT_IN: tuple[Family, ...] = (
    _LINEAR,
    Family(
        "relu",
        _relu,
        torch_modules=_called("ReLU"),
        torch_functions=(
            *_called("relu"),
            *_clamped(0, None),
            Counterpart("clamp_min", fixed=(("min", 0),), omitted=False),
        ),
        jax=_called("jax.nn.relu"),
        keras=_called("keras.activations.relu"),
    ),
    Family(
        "relu6",
        _relu6,
        torch_modules=_called("ReLU6"),
        torch_functions=(*_called("relu6"), *_clamped(0, 6)),
        jax=_called("jax.nn.relu6"),
        keras=_called("keras.activations.relu6"),
    ),
    _LEAKY_RELU,
    Family(
        "tanh",
        lambda: Activation("tanh", np.tanh, _sech_squared, slope_given=lambda a, h: 1 - h * h),
        torch_modules=_called("Tanh"),
        torch_functions=_called("tanh"),
        jax=_called("jax.nn.tanh", "jax.numpy.tanh"),
        keras=_called("keras.activations.tanh"),
    ),
    Family(
        "sigmoid",
        _sigmoid,
        aliases=("logistic",),
        torch_modules=_called("Sigmoid"),
        torch_functions=_called("sigmoid"),
        jax=_called("jax.nn.sigmoid"),
        keras=_called("keras.activations.sigmoid"),
    ),
    Family(
        "hard_sigmoid",
        _hard_sigmoid,
        torch_modules=_called("Hardsigmoid"),
        torch_functions=_called("hardsigmoid"),
        jax=_called("jax.nn.hard_sigmoid"),
        keras=_called("keras.activations.hard_sigmoid"),
    ),
    Family(
        "log_sigmoid",
        _log_sigmoid,
        torch_modules=_called("LogSigmoid"),
        torch_functions=_called("logsigmoid"),
        jax=_called("jax.nn.log_sigmoid"),
        keras=_called("keras.activations.log_sigmoid"),
    ),
    Family(
        "softplus",
        _softplus,
        default=1.0,
        torch_modules=(Counterpart("Softplus", "beta"),),
        torch_functions=(Counterpart("softplus", "beta"),),
        jax=_called("jax.nn.softplus"),
        keras=_called("keras.activations.softplus"),
    ),
    Family(
        "elu",
        _elu,
        default=1.0,
        torch_modules=(_alpha("ELU"),),
        torch_functions=(_alpha("elu"),),
        jax=(_alpha("jax.nn.elu"),),
        keras=(_alpha("keras.activations.elu"),),
    ),
    Family(
        "celu",
        _celu,
        default=1.0,
        torch_modules=(_alpha("CELU"),),
        torch_functions=(_alpha("celu"),),
        jax=(_alpha("jax.nn.celu"),),
        keras=(_alpha("keras.activations.celu"),),
    ),
    Family(
        "selu",
        _selu,
        torch_modules=_called("SELU"),
        torch_functions=_called("selu"),
        jax=_called("jax.nn.selu"),
        keras=_called("keras.activations.selu"),
    ),
    Family(
        "gelu",
        _gelu,
        torch_modules=_called(
            "GELU", "GELUActivation", "NewGELUActivation", "FastGELUActivation", "PytorchGELUTanh", "GELUTanh"
        ),
        torch_functions=_called("gelu"),
        jax=_called("jax.nn.gelu"),
        keras=_called("keras.activations.gelu"),
    ),
    Family(
        "silu",
        _silu,
        aliases=("swish",),
        torch_modules=_called("SiLU", "SiLUActivation", "Swish", "MemoryEfficientSwish"),
        torch_functions=_called("silu"),
        jax=_called("jax.nn.silu"),
        keras=_called("keras.activations.silu"),
    ),
    Family(
        "hard_swish",
        _hard_swish,
        aliases=("hard_silu",),
        torch_modules=_called("Hardswish", "HardSwish", "HardSwishMe"),
        torch_functions=_called("hardswish"),
        jax=_called("jax.nn.hard_swish"),
        keras=_called("keras.activations.hard_swish", "keras.activations.hard_silu"),
    ),
    Family(
        "mish",
        _mish,
        torch_modules=_called("Mish"),
        torch_functions=_called("mish"),
        jax=_called("jax.nn.mish"),
        keras=_called("keras.activations.mish"),
    ),
    Family("erf", _erf, torch_functions=_called("erf"), jax=_called("jax.scipy.special.erf", "jax.lax.erf")),
    Family(
        "softsign",
        _softsign,
        torch_modules=_called("Softsign"),
        torch_functions=_called("softsign"),
        jax=_called("jax.nn.soft_sign"),
        keras=_called("keras.activations.softsign"),
    ),
    Family(
        "hard_tanh",
        _hard_tanh,
        torch_modules=(Counterpart("Hardtanh", fixed=_unit_bounds),),
        torch_functions=(Counterpart("hardtanh", fixed=_unit_bounds), *_clamped(-1, 1)),
        jax=_called("jax.nn.hard_tanh"),
        keras=_called("keras.activations.hard_tanh"),
    ),
    Family(
        "sin",
        lambda: Activation("sin", np.sin, np.cos),
        aliases=("sine",),
        torch_functions=_called("sin"),
        jax=_called("jax.numpy.sin"),
    ),
)
