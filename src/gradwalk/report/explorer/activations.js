// The built-in activations of gradwalk: f, its derivative, and its kind. `rise` computes the derivative from a and f(a)
// where that saves an exponential; it loses all digits where f is flat to 1e-16. A test compares them with
// gradwalk.activations and gradwalk.theory. Neutral ones have their slope below 0 as `below`.

const LEAK = 0.01, SELU_SCALE = 1.0507009873554805, SELU_ALPHA = 1.6732632423543772;

const sigmoid = (a) => 1 / (1 + Math.exp(-a));
const softplus = (a) => Math.max(a, 0) + Math.log1p(Math.exp(-Math.abs(a)));
const normalDensity = (a) => Math.exp(-0.5 * a * a) / Math.sqrt(2 * Math.PI);

// Several times as fast as Math.tanh; accurate to five digits at the smallest scale that the sampler uses, exp(-25).
function tanh(a) {
  const tail = Math.exp(-2 * Math.abs(a)), size = (1 - tail) / (1 + tail);
  return a < 0 ? -size : size;
}

// Without overflow, and without the underflow of 1 - tanh(a)^2.
function sechSquared(a) {
  const tail = Math.exp(-2 * Math.abs(a));
  return (4 * tail) / ((1 + tail) * (1 + tail));
}

function sigmoidDerivative(a) {
  const tail = Math.exp(-Math.abs(a));
  return tail / ((1 + tail) * (1 + tail));
}

function softsignDerivative(a) {
  const size = 1 + Math.abs(a);
  return 1 / (size * size);
}

// tanh(softplus(a)) = n / (n + 2) with n = e^2a + 2 e^a: a single exponential. Above 30 it is 1 in double precision.
function mish(a) {
  const rise = Math.exp(Math.min(a, 30)), n = rise * (rise + 2);
  return (a * n) / (n + 2);
}

function mishDerivative(a) {
  const rise = Math.exp(Math.min(a, 30)), n = rise * (rise + 2);
  const sechSquaredOfBend = (4 * (n + 1)) / ((n + 2) * (n + 2));
  return n / (n + 2) + (a * sechSquaredOfBend * rise) / (1 + rise);
}

// For f(a) = a s(a) with s(0) = 1/2.
const geluRise = (a, value) => (a === 0 ? 0.5 : value / a) + a * normalDensity(a);

function siluRise(a, value) {
  const share = a === 0 ? 0.5 : value / a;
  return share + value * (1 - share);
}

const ACTIVATIONS = {
  linear: { kind: "neutral", below: 1, f: (a) => a, derivative: () => 1 },
  relu: { kind: "neutral", below: 0, f: (a) => Math.max(a, 0), derivative: (a) => +(a > 0) },
  relu6: {
    kind: "steady",
    f: (a) => Math.max(0, Math.min(6, a)),
    derivative: (a) => +(a > 0 && a < 6),
  },
  leaky_relu: {
    kind: "neutral",
    below: LEAK,
    f: (a) => (a > 0 ? a : LEAK * a),
    derivative: (a) => (a > 0 ? 1 : LEAK),
  },
  tanh: { kind: "steady", f: tanh, derivative: sechSquared, rise: (a, value) => 1 - value * value },
  sigmoid: { kind: "steady", f: sigmoid, derivative: sigmoidDerivative, rise: (a, value) => value * (1 - value) },
  hard_sigmoid: {
    kind: "steady",
    f: (a) => Math.max(0, Math.min(6, a + 3)) / 6,
    derivative: (a) => (Math.abs(a) < 3 ? 1 / 6 : 0),
  },
  log_sigmoid: { kind: "steady", f: (a) => -softplus(-a), derivative: (a) => sigmoid(-a) },
  softplus: { kind: "steady", f: softplus, derivative: sigmoid },
  elu: {
    kind: "steady",
    f: (a) => (a > 0 ? a : Math.expm1(a)),
    derivative: (a) => (a > 0 ? 1 : Math.exp(a)),
    rise: (a, value) => (a > 0 ? 1 : value + 1),
  },
  celu: {
    kind: "steady",
    f: (a) => (a > 0 ? a : Math.expm1(a)),
    derivative: (a) => (a > 0 ? 1 : Math.exp(a)),
    rise: (a, value) => (a > 0 ? 1 : value + 1),
  },
  selu: {
    kind: "steady",
    f: (a) => SELU_SCALE * (a > 0 ? a : SELU_ALPHA * Math.expm1(a)),
    derivative: (a) => SELU_SCALE * (a > 0 ? 1 : SELU_ALPHA * Math.exp(a)),
    rise: (a, value) => (a > 0 ? SELU_SCALE : value + SELU_SCALE * SELU_ALPHA),
  },
  gelu: {
    kind: "unsteady",
    f: (a) => a * normalShare(a),
    derivative: (a) => normalShare(a) + a * normalDensity(a),
    rise: geluRise,
  },
  silu: {
    kind: "unsteady",
    f: (a) => a * sigmoid(a),
    derivative: (a) => sigmoid(a) * (1 + a * sigmoid(-a)),
    rise: siluRise,
  },
  hard_swish: {
    kind: "unsteady",
    f: (a) => (a * Math.max(0, Math.min(6, a + 3))) / 6,
    derivative: (a) => (Math.abs(a) < 3 ? (2 * a + 3) / 6 : +(a > 0)),
  },
  mish: { kind: "unsteady", f: mish, derivative: mishDerivative },
  erf: { kind: "steady", f: erf, derivative: (a) => (2 / Math.sqrt(Math.PI)) * Math.exp(-a * a) },
  softsign: { kind: "steady", f: (a) => a / (1 + Math.abs(a)), derivative: softsignDerivative },
  hard_tanh: {
    kind: "steady",
    f: (a) => Math.max(-1, Math.min(1, a)),
    derivative: (a) => (Math.abs(a) < 1 ? 1 : 0),
  },
  sin: { kind: "steady", f: Math.sin, derivative: Math.cos },
};
