// Neutral activations need no vectors, as in gradwalk.simulation.neutral: the steps of a walk are independent and alike.
// With M of the N units on the upper side, M binomial, and s the slope on the lower side, a Gaussian layer multiplies
// |delta|^2 by z = (chi2_M + s^2 chi2_(N-M)) / N, and an orthogonal one by (chi2_M + s^2 chi2_(N-M)) / chi2_N.

class NeutralNetwork {
  constructor({ activation, weights, width, depth, gain }) {
    Object.assign(this, { name: activation, width, depth, logGain: Math.log(gain), ...ACTIVATIONS[activation] });
    this.orthogonal = weights === "orthogonal";
    this.luck = [0, 0];
  }

  // The same interface as that of Network.
  *walk(seed, index, record) {
    this.normals = new Normals(seed, index, 1);
    this.resampled = 0;
    let logNorm = 0;
    record(0, 0);
    for (let travelled = 1; travelled <= this.depth; travelled++) {
      logNorm += 0.5 * this.drawStep() + this.logGain;
      record(travelled, logNorm);
    }
    yield;
  }

  // Returns ln z at gain 1; a ReLU layer without an active unit is resampled, as in the paper.
  drawStep() {
    const { width, below, orthogonal } = this;
    if (orthogonal && below === 1) return 0;
    let active = this.drawActive();
    for (; active === 0 && below === 0; this.resampled++) active = this.drawActive();
    const above = this.chiSquare(active);
    const lower = below > 0 || orthogonal ? this.chiSquare(width - active) : 0;
    return Math.log((above + below * below * lower) / (orthogonal ? above + lower : width));
  }

  // The number of units on the upper side: the ones among N random bits.
  drawActive() {
    let count = 0, left = this.width;
    for (; left >= 32; left -= 32) count += ones(this.normals.word());
    return left > 0 ? count + ones(this.normals.word() >>> (32 - left)) : count;
  }

  // A chi-square variate, twice a gamma variate of shape n / 2, by the method of Marsaglia and Tsang.
  chiSquare(n) {
    if (n === 0) return 0;
    if (n === 1) return this.normals.next() ** 2;
    const d = n / 2 - 1 / 3, c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = this.normals.next(), root = 1 + c * x, v = root * root * root;
      if (v > 0 && Math.log(this.normals.uniform()) < 0.5 * x * x + d * (1 - v + Math.log(v))) return 2 * d * v;
    }
  }
}

// The number of ones among the 32 bits of a word.
function ones(word) {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
