// The three pictures, drawn on canvas, which takes a few milliseconds. Colours come from the style sheet.

const MOST_DRAWN = 120; // walks drawn as lines; the mean and the band are those of all walks
const MARGIN = { left: 46, right: 22, top: 26, bottom: 38 };

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, k) => ((first + k) * step).toFixed(digits));
}

const withMinus = (text) => String(text).replace("-", "\u2212");

// Draws the axes and returns what is needed to draw inside them, or null while the canvas has no size.
function frame(canvas, x, y) {
  const { width, height } = canvas.getBoundingClientRect();
  if (width < 100) return null;
  const style = getComputedStyle(canvas), ratio = window.devicePixelRatio || 1;
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = `12px ${style.fontFamily}`;
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const place = {
    pen, box, colour, x, y,
    X: (value) => box.left + ((value - x.low) / (x.high - x.low)) * (box.right - box.left),
    Y: (value) => box.bottom - ((value - y.low) / (y.high - y.low)) * (box.bottom - box.top),
  };
  drawAxes(place, x, y);
  return place;
}

function blank(canvas) {
  canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
}

function drawAxes({ pen, box, colour, X, Y }, x, y) {
  pen.fillStyle = colour("quiet");
  pen.strokeStyle = colour("rule");
  pen.lineWidth = 1;
  pen.textAlign = "center";
  for (const tick of ticks(x.low, x.high, Math.max(4, (box.right - box.left) / 90))) {
    pen.fillText(tick, X(tick), box.bottom + 16);
  }
  pen.fillText(x.label, (box.left + box.right) / 2, box.bottom + 33);
  pen.textAlign = "right";
  for (const tick of ticks(y.low, y.high, Math.max(6, (box.bottom - box.top) / 45))) {
    line(pen, [box.left, box.right], [Y(tick), Y(tick)]);
    pen.fillText(withMinus(tick), box.left - 6, Y(tick) + 4);
  }
  pen.textAlign = "left";
  pen.fillText(y.label, 4, 14);
}

function line(pen, xs, ys) {
  pen.beginPath();
  for (let k = 0; k < xs.length; k++) pen.lineTo(xs[k], ys[k]);
  pen.stroke();
}

function area(pen, xs, lows, highs) {
  pen.beginPath();
  xs.forEach((x, k) => pen.lineTo(x, lows[k]));
  for (let k = xs.length - 1; k >= 0; k--) pen.lineTo(xs[k], highs[k]);
  pen.fill();
}

// Horizontal lines: solid at 0, the mean of an unbiased walk, and dashed elsewhere.
function guides({ pen, box, colour, Y }, levels) {
  pen.strokeStyle = pen.fillStyle = colour("zero");
  pen.textAlign = "left";
  for (const level of levels) {
    pen.lineWidth = level === 0 ? 1.5 : 1;
    pen.setLineDash(level === 0 ? [] : [5, 4]);
    line(pen, [box.left, box.right], [Y(level), Y(level)]);
    if (level !== 0) pen.fillText(timesText(level), box.left + 4, Y(level) + (level > 0 ? -4 : 13));
  }
  pen.setLineDash([]);
}

function clipTo({ pen, box }) {
  pen.beginPath();
  pen.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  pen.clip();
}

function rangeOf(values, least) {
  let low = -least, high = least;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const margin = 0.04 * (high - low);
  return { low: low - margin, high: high + margin };
}

// Draws the walks of one or two networks over each other, and returns the place to draw a cursor in.
function drawWalks(canvas, results) {
  const extremes = results.flatMap(({ logNorm, bounds }) =>
    [...logNorm.slice(0, MOST_DRAWN), bounds.low, bounds.high].flatMap((row) => rowEnds(row)),
  );
  const place = frame(
    canvas,
    { low: 0, high: Math.max(...results.map(({ settings }) => settings.depth)), label: "layers travelled back from the output" },
    { ...rangeOf(extremes, 3), label: "log-norm of the gradient" },
  );
  if (place === null) return null;
  place.pen.save();
  clipTo(place);
  results.forEach((result, k) => drawLines(place, result, LETTERS[k], results.length));
  guides(place, [0, -Math.LN10, Math.LN10]);
  results.forEach(({ travelled, bounds }, k) => drawMean(place, travelled, bounds.mean, LETTERS[k]));
  place.pen.restore();
  return place;
}

// Draws the angle between two gradients of each network, and how many directions that amounts to.
function drawAngles(canvas, results) {
  const place = frame(
    canvas,
    { low: 0, high: Math.max(...results.map(({ settings }) => settings.depth)), label: "layers travelled back from the output" },
    { low: 0, high: 93, label: "angle between two gradients, in degrees" },
  );
  if (place === null) return;
  const { pen, colour, X, Y } = place;
  clipTo(place);
  results.forEach(({ angles }, network) => {
    const rows = anglesOf(angles), xs = angles.travelled.map(X);
    pen.strokeStyle = colour(`walk-${LETTERS[network]}`);
    pen.lineWidth = 0.8;
    pen.globalAlpha = 0.5;
    for (const row of rows) line(pen, xs, Array.from(row, Y));
    pen.globalAlpha = 1;
    const mean = angles.travelled.map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length);
    drawMean(place, angles.travelled, mean, LETTERS[network]);
  });
}

function drawLines({ pen, colour, X, Y }, { logNorm, travelled, bounds }, letter, networks) {
  const xs = travelled.map(X), heights = (row) => Array.from(row, Y), drawn = logNorm.slice(0, MOST_DRAWN);
  pen.fillStyle = colour(`band-${letter}`);
  area(pen, xs, heights(bounds.low), heights(bounds.high));
  pen.strokeStyle = colour(`walk-${letter}`);
  pen.lineWidth = 0.8;
  pen.globalAlpha = Math.max(0.35, Math.min(0.9, 30 / drawn.length / networks));
  for (const row of drawn) line(pen, xs, heights(row));
  pen.globalAlpha = 1;
}

// A line with a rim in the colour of the ground, so that it stands out from the walks.
function drawMean({ pen, colour, X, Y }, travelled, mean, letter) {
  for (const [name, width] of [["ground", 5], [`mean-${letter}`, 2.5]]) {
    pen.strokeStyle = colour(name);
    pen.lineWidth = width;
    line(pen, travelled.map(X), mean.map(Y));
  }
}

// A vertical line at a number of layers, with a dot on the mean of each network, on a canvas of its own.
function drawCursor(canvas, place, results, columns) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  const pen = canvas.getContext("2d"), { box, colour, X, Y } = place;
  pen.scale(ratio, ratio);
  const x = X(Math.max(...results.map(({ travelled }, k) => travelled[columns[k]])));
  pen.strokeStyle = colour("ink");
  line(pen, [x, x], [box.top, box.bottom]);
  results.forEach(({ travelled, bounds }, k) => {
    pen.fillStyle = colour(`mean-${LETTERS[k]}`);
    pen.beginPath();
    pen.arc(X(travelled[columns[k]]), Y(bounds.mean[columns[k]]), 5, 0, 2 * Math.PI);
    pen.fill();
  });
}

function rowEnds(row) {
  let low = Infinity, high = -Infinity;
  for (const value of row) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

// Mean and spread of the final log-norm against the gain, the unbiased gain, and the current gain.
function drawCurve(canvas, curve, estimate, now, letter) {
  const ends = curve.flatMap(({ mean, spread }) => [mean - spread, mean + spread]);
  const place = frame(
    canvas,
    { low: curve[0].gain, high: curve[curve.length - 1].gain, label: "gain g" },
    { ...rangeOf(ends, 3), label: "log-norm at layer 0, mean ± spread" },
  );
  if (place === null) return;
  const { pen, box, colour, X, Y } = place, xs = curve.map(({ gain: g }) => X(g));
  clipTo(place);
  pen.fillStyle = colour(`band-${letter}`);
  area(pen, xs, curve.map(({ mean, spread }) => Y(mean - spread)), curve.map(({ mean, spread }) => Y(mean + spread)));
  guides(place, [0]);
  pen.strokeStyle = colour(`mean-${letter}`);
  pen.lineWidth = 2;
  line(pen, xs, curve.map(({ mean }) => Y(mean)));
  pen.setLineDash([2, 3]);
  pen.strokeStyle = colour("quiet");
  line(pen, [X(estimate.value), X(estimate.value)], [box.top, box.bottom]);
  pen.setLineDash([]);
  drawNow(place, now, letter);
}

// A dot with its error bar; an arrowhead at the edge if the gain or the mean is outside the picture.
function drawNow({ pen, box, colour, X, Y }, { gain: g, mean, standardError }, letter) {
  const x = Math.max(box.left + 8, Math.min(box.right - 8, X(g)));
  const y = Math.max(box.top + 8, Math.min(box.bottom - 8, Y(mean)));
  pen.fillStyle = pen.strokeStyle = colour(`walk-${letter}`);
  pen.lineWidth = 2;
  line(pen, [x, x], [Y(mean - 2 * standardError), Y(mean + 2 * standardError)]);
  pen.beginPath();
  if (Math.abs(x - X(g)) < 9 && Math.abs(y - Y(mean)) < 9) {
    pen.arc(x, y, 4.5, 0, 2 * Math.PI);
  } else {
    const turn = Math.atan2(Y(mean) - y, X(g) - x);
    for (const angle of [0, 2.4, -2.4]) pen.lineTo(x + 8 * Math.cos(turn + angle), y + 8 * Math.sin(turn + angle));
  }
  pen.fill();
}
