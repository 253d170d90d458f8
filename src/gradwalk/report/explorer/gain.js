// The gain that makes the walk unbiased, as in gradwalk.theory.steps and gradwalk.gains.

const UNITS_TO_SOLVE = 8e6; // units drawn for the last, most careful trial gain

// Mean (drift) and variance of ln z, z the factor that one layer puts on |delta|^2 at gain 1; neutral activations.
function step(activation, width, weights = "gaussian") {
  const gaussian = { linear: linearStep, relu: reluStep, leaky_relu: leakyStep }[activation](width);
  if (weights === "gaussian") return gaussian;
  const length = linearStep(width); // a Gaussian vector is a uniform direction times an independent length
  return { drift: gaussian.drift - length.drift, variance: Math.max(gaussian.variance - length.variance, 0) };
}

function linearStep(n) {
  return { drift: digamma(n / 2) + Math.log(2 / n), variance: trigamma(n / 2) };
}

// M of the N units are active, binomial given that one is: the law of total variance over M.
function reluStep(n) {
  const logShares = [Math.log(n)];
  for (let m = 1; m < n; m++) logShares.push(logShares[m - 1] + Math.log((n - m) / (m + 1)));
  const most = Math.max(...logShares), shares = logShares.map((each) => Math.exp(each - most));
  const total = shares.reduce((sum, each) => sum + each, 0);
  const average = (value) => shares.reduce((sum, each, k) => sum + each * value(k + 1), 0) / total;
  const mean = (m) => digamma(m / 2) + Math.log(2 / n);
  const drift = average(mean);
  return { drift, variance: average((m) => trigamma(m / 2) + (mean(m) - drift) ** 2) };
}

// z is a mean of N independent terms f'(a)^2 xi^2, and f'(a)^2 is 1 or LEAK^2 with equal chance. With
// Psi(t) = E[exp(-t z)] in closed form, <ln z> = int (exp(-t) - Psi(t)) / t dt, and <(ln z)^2> is
// -2 int ln t (exp(-t) - Psi(t)) / t dt - 2 gamma <ln z>; in u = ln t the trapezoid rule converges geometrically.
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

// The mean of the final log-norm at a gain, and its standard error, less what the luck of the draws explains: the
// lengths of the random vectors, summed over the layers, have a known mean. Drawing dead layers anew would change it.
function* meanAt(settings, logGain, walks) {
  const result = yield* walksInto({}, { ...settings, gain: Math.exp(logGain), walks }, 1);
  const { spread } = moments(result.finals);
  const steadied = result.dead === 0 ? lessLuck(result.finals, result.luck) : result.finals;
  const { mean, standardError } = moments(steadied);
  return { mean, standardError: standardError * Math.sqrt((walks - 1) / (walks - 3)), spread };
}

// Least squares of the finals on the two kinds of luck, by the normal equations.
function lessLuck(finals, luck) {
  const centred = (values) => values.map((value) => value - moments(values).mean);
  const [u, v] = [0, 1].map((kind) => centred(luck.map((each) => each[kind])));
  const y = centred(finals), dot = (p, q) => p.reduce((sum, value, k) => sum + value * q[k], 0);
  const [uu, uv, vv, uy, vy] = [dot(u, u), dot(u, v), dot(v, v), dot(u, y), dot(v, y)];
  const determinant = uu * vv - uv * uv;
  if (!(determinant > 1e-12 * uu * vv)) return finals; // orthogonal weights have no luck
  const b = (uy * vv - vy * uv) / determinant, c = (vy * uu - uy * uv) / determinant;
  return finals.map((value, k) => value - b * luck[k][0] - c * luck[k][1]);
}

// The same random numbers at every trial gain make the mean a smooth function of it: a fifth of the walks find its
// root, and one step with all of them mends it. Where no gain within a factor 50 will do, the value is NaN.
function* solving(asked) {
  const settings = { weights: "gaussian", seed: 1, ...asked }, { activation, width, depth } = settings;
  const { kind } = ACTIVATIONS[activation];
  const walks = asked.walks ?? Math.max(40, Math.min(1000, Math.round(UNITS_TO_SOLVE / (width * depth))));
  const rough = function* (logGain) {
    return (yield* meanAt(settings, logGain, Math.max(8, Math.floor(walks / 5)))).mean;
  };
  const bracket = yield* bracketing(rough, startGain(activation));
  if (bracket === null) return { value: NaN, standardError: NaN, spread: NaN, slope: NaN, kind, walks };
  const root = yield* rooting(rough, bracket, 0.02 / depth);
  const apart = 0.2 / depth;
  const slope = ((yield* rough(root + apart)) - (yield* rough(root - apart))) / (2 * apart);
  const { mean, standardError, spread } = yield* meanAt(settings, root, walks);
  const value = Math.exp(root - mean / slope);
  return { value, standardError: (value * standardError) / Math.abs(slope), spread, slope, kind, walks };
}

// ln of the gain that would be right if all pre-activations had variance 1: -ln E[f'(x)^2] / 2.
function startGain(activation) {
  const { derivative } = ACTIVATIONS[activation];
  let mean = 0;
  for (let x = -8; x <= 8; x += 0.01) mean += 0.01 * normalDensity(x) * derivative(x) ** 2;
  return -0.5 * Math.log(mean);
}

// Two points, each with its value, between which the function changes its sign; null where there are none.
function* bracketing(fn, start) {
  const atStart = yield* fn(start);
  let near = [start, atStart];
  for (let reach = 0.05; reach < 4; reach *= 2) {
    const at = start - Math.sign(atStart) * reach, other = [at, yield* fn(at)];
    if (other[1] * atStart <= 0) return [near, other];
    near = other;
  }
  return null;
}

// Regula falsi in its Illinois form: an end that stays has its value halved, so that the other moves too.
function* rooting(fn, [[a, atA], [b, atB]], tolerance) {
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

function* gainSteps(settings) {
  return ACTIVATIONS[settings.activation].kind === "neutral" ? neutralGain(settings) : yield* solving(settings);
}

function gain(settings) {
  return atOnce(gainSteps(settings));
}

// The mean final log-norm and the spread against the gain, about as far to both sides as the mean is worth looking at.
// The middle point is the unbiased gain, where the mean is 0 by the estimate, which rests on more walks: with the same
// random numbers at all points, what the mean is off there it is off everywhere.
function* curveSteps(settings, estimate, points = 11) {
  const { value, slope, spread, kind } = estimate, { width, depth } = settings, found = [];
  if (!Number.isFinite(value)) return found;
  const reach = Math.min(Math.max(4, 1.5 * spread) / Math.abs(slope), 0.5);
  const walks = Math.max(8, Math.min(200, Math.round(UNITS_TO_SOLVE / 5 / (width * depth))));
  for (let k = 0; k < points; k++) {
    const logGain = Math.log(value) + reach * ((2 * k) / (points - 1) - 1);
    const at = kind === "neutral"
      ? { mean: depth * (logGain - Math.log(value)), standardError: 0, spread }
      : yield* meanAt(settings, logGain, walks);
    found.push({ gain: Math.exp(logGain), ...at });
  }
  const off = found[(points - 1) / 2].mean;
  return found.map((point) => ({ ...point, mean: point.mean - off }));
}
