// Standard normal numbers: the generator sfc32 and the ziggurat of Marsaglia and Tsang in Doornik's form, which takes
// the box and the position in it from different bits. Three times as fast as the Box-Muller transform.

const BOXES = 128, TAIL = 3.442619855899, BOX_AREA = 9.91256303526217e-3;
const FINE = 2 ** -23; // the position in a box has 24 bits, the precision of a single-precision number

// The right edges of the boxes, from the lowest, which includes the tail, up to the peak at 0.
const EDGES = new Float64Array(BOXES + 1);
EDGES[0] = BOX_AREA * Math.exp(0.5 * TAIL * TAIL);
EDGES[1] = TAIL;
for (let k = 2; k < BOXES; k++) {
  EDGES[k] = Math.sqrt(-2 * Math.log(BOX_AREA / EDGES[k - 1] + Math.exp(-0.5 * EDGES[k - 1] ** 2)));
}
const STEPS = EDGES.map((edge) => edge * FINE);
const INSIDE = Int32Array.from(EDGES.subarray(0, BOXES), (edge, k) => Math.floor(EDGES[k + 1] / edge / FINE) - 1);

class Normals {
  // One stream per seed, walk and direction: a walk does not depend on which others are drawn with it.
  constructor(seed, walk, direction) {
    this.state = Int32Array.of(seed, walk, direction, 1);
    this.words = new Int32Array(512);
    this.refill();
    this.at = 16; // the first words depend on a part of the seed's bits only
    this.single = new Float32Array(1);
  }

  refill() {
    const words = this.words;
    let [a, b, c, counter] = this.state;
    for (let k = 0; k < words.length; k++) {
      const word = (((a + b) | 0) + counter) | 0;
      counter = (counter + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + word) | 0;
      words[k] = word;
    }
    this.state.set([a, b, c, counter]);
    this.at = 0;
  }

  word() {
    if (this.at === this.words.length) this.refill();
    return this.words[this.at++];
  }

  // Strictly between 0 and 1.
  uniform() {
    return (this.word() >>> 0) * 2 ** -32 + 2 ** -33;
  }

  // One normal number.
  next() {
    this.fill(this.single, 0, 1);
    return this.single[0];
  }

  // Writes `count` numbers into target, a Float32Array, from index `start`. The common case is inlined: the explorer
  // spends most of its time in this loop.
  fill(target, start, count) {
    const words = this.words, end = start + count;
    let at = this.at;
    for (let k = start; k < end; ) {
      if (at === words.length) {
        this.refill();
        at = 0;
      }
      const word = words[at++], box = word & (BOXES - 1), place = word >> 8;
      if (Math.abs(place) < INSIDE[box]) {
        target[k++] = (place + 0.5) * STEPS[box];
      } else {
        this.at = at;
        const x = this.outside(box, place + 0.5);
        at = this.at;
        if (x !== 0) target[k++] = x;
      }
    }
    this.at = at;
  }

  // The part of a box that is not entirely under the density, about one draw in eighty: a number from the tail or a
  // corner, or 0 if it lies above the density and must be redrawn.
  outside(box, place) {
    if (box === 0) return Math.sign(place) * this.beyondTail();
    const x = place * STEPS[box];
    const floor = Math.exp(-0.5 * EDGES[box] ** 2), ceiling = Math.exp(-0.5 * EDGES[box + 1] ** 2);
    return floor + this.uniform() * (ceiling - floor) < Math.exp(-0.5 * x * x) ? x : 0;
  }

  beyondTail() {
    for (;;) {
      const x = -Math.log(this.uniform()) / TAIL, y = -Math.log(this.uniform());
      if (2 * y > x * x) return TAIL + x;
    }
  }
}
