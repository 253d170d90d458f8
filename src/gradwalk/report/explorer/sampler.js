// The exact sampler, as in gradwalk.simulation.exact: the joint law of a random network's forward and backward pass in
// O(width) per layer. No matrix is drawn. Forward, W h has independent components of variance |h|^2 / N. Backward,
// given a = g W h, the part of W that acts on h is known and the rest is an independent Gaussian matrix:
//     W^T delta = h (a . delta) / (g |h|^2) + (I - h h^T / |h|^2) xi |delta| / sqrt(N),   xi standard normal.
// With orthogonal weights W h is uniform on a sphere, and so is the part of W^T delta orthogonal to h.
//
// Functions that may take long are generators that yield about every millisecond, so that a page stays responsive.

const LOG_SCALES = [-25, 25]; // beyond these f is homogeneous, or f(0) below them, or the signal does not reach them
const LEAST_GRADIENT = 1e-20; // squared norm; keeps its logarithm finite where a single active unit is rounded to 0
const FAINT = 1e-6; // squared norm of f'(a) below which it is stored relative to its largest component
const ATTEMPTS = 2000;
const UNITS_PER_PAUSE = 20000;

class Network {
  constructor({ activation, weights, width, depth, gain }) {
    Object.assign(this, ACTIVATIONS[activation], { name: activation, width, depth, logGain: Math.log(gain) });
    this.rise ??= this.derivative;
    this.orthogonal = weights === "orthogonal";
    // What a layer keeps for the backward pass: a = exp(logScale) x, h = f(a), f'(a) = slope exp(logSlope).
    [this.x, this.h, this.slope] = [0, 0, 0].map(() => new Float32Array(width * depth));
    [this.squaredX, this.squaredH, this.logSlope] = [0, 0, 0].map(() => new Float64Array(depth));
    this.fresh = new Float32Array(width);
  }

  // Runs one network forward and back, and calls `record(travelled, logNorm)` with ln(|delta_d| / |delta_D|).
  *walk(seed, index, record) {
    const { width, depth, logGain } = this;
    this.forwards = new Normals(seed, index, 1);
    this.backwards = new Normals(seed, index, 2);
    this.resampled = 0;
    this.luck = [0, 0];
    let logScale = 0, units = 0;
    for (let d = 0; d < depth; d++) {
      const logLength = this.drawLayer(d, logScale);
      logScale = logGain + logLength - 0.5 * Math.log(width);
      if ((units += width) > UNITS_PER_PAUSE) yield (units = 0);
    }
    let overlap = this.topOverlap(), logNorm = 0;
    record(0, 0);
    for (let d = depth - 1; d >= 0; d--) {
      const [growth, next] = this.stepBack(d, overlap);
      overlap = next;
      logNorm += growth + logGain;
      record(depth - d, logNorm);
      if ((units += width) > UNITS_PER_PAUSE) yield (units = 0);
    }
  }

  // Returns ln |h|. An inactive layer is resampled, as in the paper.
  drawLayer(d, logScale) {
    for (let attempt = 0; attempt <= ATTEMPTS; attempt++) {
      this.squaredX[d] = this.drawImage(this.x, d * this.width, this.orthogonal && d > 0);
      if (this.respond(d, logScale)) {
        const moved = logScale - this.clampedScale(logScale);
        return 0.5 * Math.log(this.squaredH[d]) + (moved > 0 || this.f(0) === 0 ? moved : 0);
      }
      this.resampled++;
    }
    const problem = `${this.name} passes no signal or no gradient here`;
    throw new Error(`simulate: ${problem}: a layer was inactive in ${ATTEMPTS + 1} draws`);
  }

  clampedScale(logScale) {
    return Math.max(LOG_SCALES[0], Math.min(LOG_SCALES[1], logScale));
  }

  // Draws W h for an h of norm sqrt(N), so that its components have unit variance, and returns its squared norm. With
  // orthogonal weights it lies on a sphere, except in layer 0, whose pre-activations come from no matrix.
  drawImage(target, start, onSphere) {
    const { width } = this, end = start + width;
    this.forwards.fill(target, start, width);
    let squared = 0;
    for (let k = start; k < end; k++) squared += target[k] * target[k];
    if (!onSphere) return squared;
    const scale = Math.sqrt(width / squared);
    for (let k = start; k < end; k++) target[k] *= scale;
    return width;
  }

  // Fills in f(a) and f'(a), and returns whether the layer is active.
  respond(d, logScale) {
    const { f, rise, x, h, slope, width } = this;
    const scale = Math.exp(this.clampedScale(logScale)), start = d * width, end = start + width;
    let squaredH = 0, squaredSlope = 0;
    for (let k = start; k < end; k++) {
      const a = scale * x[k], value = f(a), steepness = rise(a, value);
      h[k] = value;
      slope[k] = steepness;
      squaredH += h[k] * h[k]; // of the rounded values, so that the part orthogonal to h is accurate
      squaredSlope += steepness * steepness;
    }
    this.squaredH[d] = squaredH;
    this.logSlope[d] = squaredSlope < FAINT ? this.rescaleSlope(start, scale) : 0;
    return squaredH > 0 && this.logSlope[d] > -Infinity;
  }

  rescaleSlope(start, scale) {
    const exact = Float64Array.from(this.x.subarray(start, start + this.width), (x) => this.derivative(scale * x));
    const largest = exact.reduce((most, rise) => Math.max(most, Math.abs(rise)), 0);
    for (let k = 0; k < this.width; k++) this.slope[start + k] = largest > 0 ? exact[k] / largest : 0;
    return Math.log(largest);
  }

  // All that the backward pass needs of delta is x . delta / |delta|; at the top, that of a random delta.
  topOverlap() {
    const { width, fresh } = this, x = new Float32Array(width);
    this.drawImage(x, 0, this.orthogonal);
    this.backwards.fill(fresh, 0, width);
    let product = 0, squared = 0;
    for (let k = 0; k < width; k++) {
      product += x[k] * fresh[k];
      squared += fresh[k] * fresh[k];
    }
    return product / Math.sqrt(squared);
  }

  // Propagates delta through W and f' of layer d; returns ln of its growth at gain 1, and the overlap there.
  stepBack(d, overlap) {
    const { width, x, h, slope, fresh } = this, start = d * width;
    this.backwards.fill(fresh, 0, width);
    let squared = 0, product = 0;
    for (let k = 0; k < width; k++) {
      squared += fresh[k] * fresh[k];
      product += h[start + k] * fresh[k];
    }
    const [ofFresh, ofH, logFactor] = this.orthogonal
      ? this.throughHaar(d, overlap, squared, product)
      : this.throughGaussian(d, overlap, squared, product);
    let after = 0, next = 0;
    for (let k = 0; k < width; k++) {
      const delta = slope[start + k] * (ofFresh * fresh[k] + ofH * h[start + k]);
      after += delta * delta;
      next += x[start + k] * delta;
    }
    after = Math.max(after, LEAST_GRADIENT);
    return [logFactor + this.logSlope[d] + 0.5 * Math.log(after), next / Math.sqrt(after)];
  }

  // Both return the coefficients of the fresh vector and of h in W^T delta, and ln of a common factor.
  throughGaussian(d, overlap, squared, product) {
    const { width, squaredH } = this, mean = digamma(width / 2) + Math.LN2;
    this.luck[0] += Math.log(this.squaredX[d]) - mean;
    this.luck[1] += Math.log(squared) - mean;
    return [1, overlap / Math.sqrt(squaredH[d]) - product / squaredH[d], -0.5 * Math.log(width)];
  }

  throughHaar(d, overlap, squared, product) {
    const squaredH = this.squaredH[d], cosine = overlap / Math.sqrt(this.width);
    const across = squared - (product * product) / squaredH; // of the fresh vector, orthogonal to h, squared
    const ofFresh = this.width > 1 ? Math.sqrt(Math.max(1 - cosine * cosine, 0) / across) : 0;
    return [ofFresh, cosine / Math.sqrt(squaredH) - (ofFresh * product) / squaredH, 0];
  }
}

function checkSettings({ activation, weights = "gaussian", width, depth, gain, walks, seed = 1 }) {
  const whole = (name, value, least) => {
    if (!(Number.isInteger(value) && value >= least)) {
      throw new Error(`simulate: ${name} must be a whole number of at least ${least}, got ${name}=${value}`);
    }
  };
  if (!(activation in ACTIVATIONS)) throw new Error(`simulate: unknown activation "${activation}"`);
  if (!["gaussian", "orthogonal"].includes(weights)) throw new Error(`simulate: unknown weights "${weights}"`);
  whole("width", width, 1);
  whole("depth", depth, 1);
  whole("walks", walks, 1);
  whole("seed", seed, 0);
  if (!(gain > 0 && gain < Infinity)) throw new Error(`simulate: gain must be positive and finite, got gain=${gain}`);
  return { activation, weights, width, depth, gain, walks, seed };
}

// The layers travelled back in each column of the result, from 0 to depth.
function columnsTravelled(depth, most) {
  const every = Math.ceil(depth / most), columns = [];
  for (let travelled = 0; travelled < depth; travelled += every) columns.push(travelled);
  return [...columns, depth];
}

// The cheapest sampler of a network: steps where they are independent, vectors elsewhere.
function networkOf(settings) {
  const { kind } = ACTIVATIONS[settings.activation];
  return kind === "neutral" ? new NeutralNetwork(settings) : new Network(settings);
}

// Adds the walks to `result` one by one, so that it can be shown before it is complete.
function* walksInto(result, given, columns = 400) {
  const settings = checkSettings(given), network = networkOf(settings);
  const travelled = columnsTravelled(settings.depth, columns);
  const place = new Map(travelled.map((layers, column) => [layers, column]));
  Object.assign(result, { settings, travelled, logNorm: [], finals: [], luck: [], resampled: 0 });
  for (let index = 0; index < settings.walks; index++) {
    const row = new Float64Array(travelled.length);
    const record = (layers, logNorm) => {
      const column = place.get(layers);
      if (column !== undefined) row[column] = logNorm;
    };
    yield* network.walk(settings.seed, index, record);
    const final = row[row.length - 1];
    if (!Number.isFinite(final)) {
      throw new Error(`simulate: the gradient of ${network.name} exceeds the range of floating point`);
    }
    result.logNorm.push(row);
    result.finals.push(final);
    result.luck.push(network.luck);
    result.resampled += network.resampled;
  }
  return result;
}

function moments(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const spread = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : NaN;
  return { mean, spread, standardError: spread / Math.sqrt(values.length) };
}

// The numbers of the walks drawn so far; a gradient that changes more than tenfold has vanished or exploded.
function summary({ finals, resampled }) {
  const share = (holds) => finals.filter(holds).length / finals.length;
  return {
    ...moments(finals),
    vanished: share((final) => final < -Math.LN10),
    exploded: share((final) => final > Math.LN10),
    resampled,
  };
}

// The mean and the 5 % and 95 % quantiles per column.
function band({ logNorm, travelled }) {
  const column = new Float64Array(logNorm.length);
  const bounds = { low: [], mean: [], high: [] };
  travelled.forEach((_, j) => {
    logNorm.forEach((row, index) => (column[index] = row[j]));
    column.sort();
    bounds.low.push(quantile(column, 0.05));
    bounds.mean.push(column.reduce((sum, value) => sum + value, 0) / column.length);
    bounds.high.push(quantile(column, 0.95));
  });
  return bounds;
}

function quantile(sorted, share) {
  const at = share * (sorted.length - 1), below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

function atOnce(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

function simulate(settings, columns) {
  const result = atOnce(walksInto({}, settings, columns));
  return { ...result, ...summary(result), band: band(result) };
}
