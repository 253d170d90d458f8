// Special functions that JavaScript lacks.

// By recurrence up to 10, and from there by the asymptotic series, which is accurate to about 1e-15.
function digamma(x) {
  let below = 0;
  for (; x < 10; x++) below -= 1 / x;
  const s = 1 / (x * x);
  const series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760))))));
  return below + Math.log(x) - 0.5 / x - series;
}

function trigamma(x) {
  let below = 0;
  for (; x < 10; x++) below += 1 / (x * x);
  const s = 1 / (x * x);
  const series = 1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730)))));
  return below + (1 + 0.5 / x + s * series) / x;
}

// erf and erfc by the rational functions of W. J. Cody, Math. Comp. 23 (1969), with a relative error of 1e-15 also in
// the tail, which gelu needs.
const CODY = {
  near: [
    [1.85777706184603153e-1, 3.1611237438705656, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3],
    [1, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3],
  ],
  middle: [
    [
      2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
      8.8195222124176909e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
    ],
    [
      1, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
      3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ],
  ],
  far: [
    [
      1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
      1.60837851487422766e-2, 6.58749161529837803e-4,
    ],
    [
      1, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
      2.33520497626869185e-3,
    ],
  ],
};

function rational([above, below], x) {
  let top = 0, bottom = 0;
  for (let k = 0; k < above.length; k++) {
    top = top * x + above[k];
    bottom = bottom * x + below[k];
  }
  return top / bottom;
}

function erfcOfPositive(y) {
  if (y <= 4) return Math.exp(-y * y) * rational(CODY.middle, y);
  const s = 1 / (y * y);
  return (Math.exp(-y * y) / y) * (1 / Math.sqrt(Math.PI) - s * rational(CODY.far, s));
}

function erf(a) {
  if (Math.abs(a) <= 0.46875) return a * rational(CODY.near, a * a);
  return a > 0 ? 1 - erfcOfPositive(a) : erfcOfPositive(-a) - 1;
}

// The distribution function of a standard normal variable.
function normalShare(a) {
  const y = Math.abs(a) * Math.SQRT1_2;
  if (y <= 0.46875) return 0.5 + 0.5 * erf(a * Math.SQRT1_2);
  return a > 0 ? 1 - 0.5 * erfcOfPositive(y) : 0.5 * erfcOfPositive(y);
}
