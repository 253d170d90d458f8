// Two gradients at one input, as in gradwalk.simulation.frames: a matrix takes orthonormal vectors back independently of
// one another, but for the part on h. Behind each layer they are made orthonormal again; the product of the triangular
// factors holds the angle between the gradients themselves, however small it has become.

const MOST_PAIRS = 60; // networks for which the angle is drawn
const LEAST_WIDTH = 3; // of networks in which two gradients have an angle to speak of

class PairNetwork extends Network {
  constructor(settings) {
    super(settings);
    this.pair = [0, 0].map(() => new Float64Array(settings.width));
  }

  // Runs one network forward and back, and calls `record(travelled, cosine)` with that of two random gradients.
  *angles(seed, index, record) {
    const { width, depth, logGain } = this;
    this.forwards = new Normals(seed, index, 3);
    this.backwards = new Normals(seed, index, 4);
    this.resampled = 0;
    let logScale = 0, units = 0;
    for (let d = 0; d < depth; d++) {
      logScale = logGain + this.drawLayer(d, logScale) - 0.5 * Math.log(width);
      if ((units += width) > UNITS_PER_PAUSE) yield (units = 0);
    }
    const image = new Float32Array(width);
    this.drawImage(image, 0, this.orthogonal);
    this.drawPair();
    let factor = this.orthonormalise();
    let overlaps = this.pair.map((vector) => dotWith(image, 0, vector));
    record(0, cosineOf(factor));
    for (let d = depth - 1; d >= 0; d--) {
      this.turn(d, overlaps);
      factor = times(this.orthonormalise(), factor);
      overlaps = this.pair.map((vector) => dotWith(this.x, d * width, vector));
      record(depth - d, cosineOf(factor));
      if ((units += 2 * width) > UNITS_PER_PAUSE) yield (units = 0);
    }
  }

  drawPair() {
    for (const vector of this.pair) {
      this.backwards.fill(this.fresh, 0, this.width);
      vector.set(this.fresh);
    }
  }

  // Takes the orthonormal pair with these overlaps back through W and f' of layer d, up to a factor.
  turn(d, overlaps) {
    const { width, h, slope } = this, start = d * width, squaredH = this.squaredH[d];
    this.drawPair();
    for (const vector of this.pair) add(vector, -dotWith(h, start, vector) / squaredH, h, start);
    if (this.orthogonal) this.turnAcross(overlaps.map((overlap) => overlap / Math.sqrt(width)));
    const unit = this.orthogonal ? 1 / Math.sqrt(width * squaredH) : 1 / Math.sqrt(squaredH);
    this.pair.forEach((vector, j) => {
      add(vector, overlaps[j] * unit, h, start);
      for (let k = 0; k < width; k++) vector[k] *= slope[start + k];
    });
  }

  // A Haar matrix keeps scalar products: those of the parts orthogonal to the image of h are 1 - c c^T.
  turnAcross([first, second]) {
    this.orthonormalise();
    const [one, two] = this.pair, left = Math.sqrt(Math.max(1 - first * first, 0));
    const mixed = left > 0 ? (-first * second) / left : 0;
    const right = Math.sqrt(Math.max(1 - second * second - mixed * mixed, 0));
    for (let k = 0; k < this.width; k++) {
      two[k] = mixed * one[k] + right * two[k];
      one[k] *= left;
    }
  }

  // Makes the pair orthonormal in place, and returns the upper triangular factor [r11, r12, r22].
  orthonormalise() {
    const [one, two] = this.pair;
    const r11 = Math.max(Math.sqrt(dotWith(one, 0, one)), 1e-150);
    for (let k = 0; k < one.length; k++) one[k] /= r11;
    const r12 = dotWith(one, 0, two);
    add(two, -r12, one, 0);
    const r22 = Math.max(Math.sqrt(dotWith(two, 0, two)), 1e-150);
    for (let k = 0; k < two.length; k++) two[k] /= r22;
    return [r11, r12, r22];
  }
}

function dotWith(values, start, vector) {
  let sum = 0;
  for (let k = 0; k < vector.length; k++) sum += values[start + k] * vector[k];
  return sum;
}

function add(vector, factor, values, start) {
  for (let k = 0; k < vector.length; k++) vector[k] += factor * values[start + k];
}

// The product of two upper triangular factors, divided by its largest element.
function times([a11, a12, a22], [b11, b12, b22]) {
  const product = [a11 * b11, a11 * b12 + a12 * b22, a22 * b22], largest = Math.max(...product.map(Math.abs));
  return product.map((value) => value / largest);
}

function cosineOf([, along, across]) {
  return along / Math.max(Math.hypot(along, across), 1e-300);
}

// Adds the cosines of the pairs to `result` one by one.
function* anglesInto(result, given, columns = 400) {
  const settings = checkSettings(given), network = new PairNetwork(settings);
  const travelled = columnsTravelled(settings.depth, columns);
  const place = new Map(travelled.map((layers, column) => [layers, column]));
  Object.assign(result, { settings, travelled, cosine: [] });
  for (let index = 0; index < settings.walks; index++) {
    const row = new Float64Array(travelled.length);
    const record = (layers, cosine) => {
      const column = place.get(layers);
      if (column !== undefined) row[column] = cosine;
    };
    yield* network.angles(settings.seed, index, record);
    result.cosine.push(row);
  }
  return result;
}

// How many directions pass down to each column: 1 / <cos^2>.
function directionsOf({ cosine, travelled }) {
  return travelled.map((_, j) => cosine.length / cosine.reduce((sum, row) => sum + row[j] * row[j], 0));
}

// Angles between the lines of two gradients in degrees, 0 to 90.
function anglesOf({ cosine }) {
  return cosine.map((row) => Float64Array.from(row, (c) => (Math.acos(Math.min(1, Math.abs(c))) * 180) / Math.PI));
}
