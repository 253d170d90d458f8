// The unbiased gain, as in gradwalk.theory.steps and gradwalk.gains.

const UNITS_TO_SOLVE = 4e6; // units drawn for the last and most accurate trial gain
const ROUGH_WALKS = 12; // of the first estimate, which is shown while it is refined
const ROUGH_SIZE = 200; // greatest width and depth of the network that it is solved for

// Mean (drift) and variance of ln z, where one layer multiplies |delta|^2 by z at gain 1, for neutral activations.
function step(activation, width, weights = "gaussian") {
  const gaussian = { linear: linearStep, relu: reluStep, leaky_relu: leakyStep }[activation](width);
  if (weights === "gaussian") return gaussian;
  const norm = linearStep(width); // a Gaussian vector is a uniform direction times an independent norm
  return { drift: gaussian.drift - norm.drift, variance: Math.max(gaussian.variance - norm.variance, 0) };
}

function linearStep(n) {
  return { drift: digamma(n / 2) + Math.log(2 / n), variance: trigamma(n / 2) };
}

// M of the N units are active, M binomial given M >= 1; the variance is by the law of total variance over M.
function reluStep(n) {
  const logShares = [Math.log(n)];
  for (let m = 1; m < n; m++) logShares.push(logShares[m - 1] + Math.log((n - m) / (m + 1)));
  const most = Math.max(...logShares), shares = logShares.map((logShare) => Math.exp(logShare - most));
  const total = shares.reduce((sum, share) => sum + share, 0);
  const average = (value) => shares.reduce((sum, share, k) => sum + share * value(k + 1), 0) / total;
  const mean = (m) => digamma(m / 2) + Math.log(2 / n);
  const drift = average(mean);
  return { drift, variance: average((m) => trigamma(m / 2) + (mean(m) - drift) ** 2) };
}

// z is a mean of N independent terms f'(a)^2 xi^2, where f'(a)^2 is 1 or LEAK^2 with equal probability. With
// Psi(t) = E[exp(-t z)] in closed form, <ln z> = int (exp(-t) - Psi(t)) / t dt, and <(ln z)^2> is
// -2 int ln t (exp(-t) - Psi(t)) / t dt - 2 gamma <ln z>; in u = ln t the trapezoidal rule converges geometrically.
function leakyStep(n) {
  const spacing = 0.125, gamma = 0.5772156649015329;
  const root = (t) => Math.expm1(-0.5 * Math.log1p((2 * t) / n)); // (1 + 2 t / n)^(-1/2) - 1
  const transform = (t) => Math.exp(n * Math.log1p(0.5 * (root(t) + root(LEAK * LEAK * t))));
  let first = 0, second = 0;
  for (let u = -40; u < 120; u += spacing) {
    const t = Math.exp(u), gap = Math.exp(-t) - transform(t);
    first += spacing * gap;
    second += spacing * u * gap;
  }
  return { drift: first, variance: -2 * second - 2 * gamma * first - first * first };
}

function neutralGain({ activation, weights, width, depth }) {
  const { drift, variance } = step(activation, width, weights);
  const spread = Math.sqrt(depth * variance) / 2;
  return { value: Math.exp(-drift / 2), standardError: 0, spread, slope: depth, kind: "neutral", walks: 0 };
}

// The mean of the final log-norm at a gain and its standard error, with two control variates: the log-norms of the
// random vectors, summed over the layers, have a known mean. Resampling inactive layers would change that mean.
function* meanAt(settings, logGain, walks) {
  const result = yield* walksInto({}, { ...settings, gain: Math.exp(logGain), walks }, 1);
  const { spread } = moments(result.finals);
  const controlled = result.resampled === 0 ? withoutLuck(result.finals, result.luck) : result.finals;
  const { mean, standardError } = moments(controlled);
  return { mean, standardError: standardError * Math.sqrt((walks - 1) / (walks - 3)), spread };
}

// The residuals of a least-squares fit of the finals to the two control variates, by the normal equations.
function withoutLuck(finals, luck) {
  const centred = (values) => values.map((value) => value - moments(values).mean);
  const [u, v] = [0, 1].map((kind) => centred(luck.map((pair) => pair[kind])));
  const y = centred(finals), dot = (p, q) => p.reduce((sum, value, k) => sum + value * q[k], 0);
  const [uu, uv, vv, uy, vy] = [dot(u, u), dot(u, v), dot(v, v), dot(u, y), dot(v, y)];
  const determinant = uu * vv - uv * uv;
  if (!(determinant > 1e-12 * uu * vv)) return finals; // there are no control variates for orthogonal weights
  const b = (uy * vv - vy * uv) / determinant, c = (vy * uu - uy * uv) / determinant;
  return finals.map((value, k) => value - b * luck[k][0] - c * luck[k][1]);
}

// The same random numbers at every trial gain make the mean a smooth function of the gain. Its root is found with few
// walks, first in a small network, whose root is passed to `rough`; two Newton steps, with a fifth of the walks and with
// all of them, refine it. NaN where no gain within a factor of 24 is unbiased.
function* solvingSteps(given, rough = () => {}) {
  const settings = { weights: "gaussian", seed: 1, ...given }, { activation, width, depth } = settings;
  const { kind } = ACTIVATIONS[activation];
  const walks = given.walks ?? Math.max(40, Math.min(1000, Math.round(UNITS_TO_SOLVE / (width * depth))));
  const root = yield* fewWalksRoot(settings, rough);
  if (root === null) return { value: NaN, standardError: NaN, spread: NaN, slope: NaN, kind, walks };
  const some = meanWith(settings, Math.max(ROUGH_WALKS, Math.floor(walks / 5)));
  const { root: better, slope } = yield* newtonSteps(some, root, depth);
  const { mean, standardError, spread } = yield* meanAt(settings, better, walks);
  const value = Math.exp(better - mean / slope);
  return { value, standardError: (value * standardError) / Math.abs(slope), spread, slope, kind, walks };
}

// ln of the gain that is unbiased for a few walks, or null. A large network begins at the root of a smaller one.
function* fewWalksRoot(settings, rough) {
  const { width, depth } = settings, small = { width: Math.min(width, ROUGH_SIZE), depth: Math.min(depth, ROUGH_SIZE) };
  const first = yield* rootFrom({ ...settings, ...small }, startGain(settings.activation), 0.05);
  if (first !== null) rough(Math.exp(first));
  if (small.width === width && small.depth === depth) return first;
  return yield* rootFrom(settings, first ?? startGain(settings.activation), 1 / depth);
}

function* rootFrom(settings, start, reach) {
  const mean = meanWith(settings, ROUGH_WALKS), bracket = yield* bracketSteps(mean, start, reach);
  return bracket === null ? null : yield* rootSteps(mean, bracket, 0.02 / settings.depth);
}

function meanWith(settings, walks) {
  return function* (logGain) {
    return (yield* meanAt(settings, logGain, walks)).mean;
  };
}

// One Newton step from a point near the root, with the slope there.
function* newtonSteps(fn, point, depth) {
  const distance = 0.2 / depth, below = yield* fn(point - distance), above = yield* fn(point + distance);
  const slope = (above - below) / (2 * distance);
  return { root: point - (above + below) / 2 / slope, slope };
}

// ln of the gain that is unbiased for wide layers with pre-activations of variance 1: -ln E[f'(x)^2] / 2.
function startGain(activation) {
  const { derivative } = ACTIVATIONS[activation];
  let mean = 0;
  for (let x = -8; x <= 8; x += 0.01) mean += 0.01 * normalDensity(x) * derivative(x) ** 2;
  return -0.5 * Math.log(mean);
}

// Two points with their values between which the function changes sign, or null if there are none.
function* bracketSteps(fn, start, first) {
  const atStart = yield* fn(start);
  let near = [start, atStart];
  for (let reach = first; reach < 4; reach *= 2) {
    const at = start - Math.sign(atStart) * reach, other = [at, yield* fn(at)];
    if (other[1] * atStart <= 0) return [near, other];
    near = other;
  }
  return null;
}

// Root by regula falsi in its Illinois form: the value at an end that does not move is halved.
function* rootSteps(fn, [[a, atA], [b, atB]], tolerance) {
  while (Math.abs(b - a) > tolerance && atB !== 0) {
    const c = b - (atB * (b - a)) / (atB - atA), atC = yield* fn(c);
    if (atC * atB < 0) [a, atA] = [b, atB];
    else atA /= 2;
    const moved = Math.abs(c - b);
    [b, atB] = [c, atC];
    if (moved < tolerance) break;
  }
  return b;
}

function* gainSteps(settings, rough) {
  const { kind } = ACTIVATIONS[settings.activation];
  return kind === "neutral" ? neutralGain(settings) : yield* solvingSteps(settings, rough);
}

function gain(settings) {
  return atOnce(gainSteps(settings));
}

// Mean and spread of the final log-norm against the gain, over a range in which the mean changes by a few spreads. The
// middle point is the unbiased gain. The mean there is 0 by an estimate from more walks; all points share their random
// numbers and so nearly the same error, which is subtracted.
function* curveSteps(settings, estimate, points = 11) {
  const { value, slope, spread, kind } = estimate, { width, depth } = settings, curve = [];
  if (!Number.isFinite(value)) return curve;
  const reach = Math.min(Math.max(4, 1.5 * spread) / Math.abs(slope), 0.5);
  const walks = Math.max(8, Math.min(200, Math.round(UNITS_TO_SOLVE / 5 / (width * depth))));
  for (let k = 0; k < points; k++) {
    const logGain = Math.log(value) + reach * ((2 * k) / (points - 1) - 1);
    const at = kind === "neutral"
      ? { mean: depth * (logGain - Math.log(value)), standardError: 0, spread }
      : yield* meanAt(settings, logGain, walks);
    curve.push({ gain: Math.exp(logGain), ...at });
  }
  const error = curve[(points - 1) / 2].mean;
  return curve.map((point) => ({ ...point, mean: point.mean - error }));
}
