// Numbers and sentences that the explorer shows.

const signed = (value) => withMinus((Math.round(100 * value) / 100 + 0).toFixed(2)); // + 0 turns -0 into 0
const shortGain = (gain) => Number(gain.toPrecision(7)); // at 1000 layers the last digit changes the log-norm by 0.001
const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
const raised = (power) => String(power).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);

// The factor that corresponds to the absolute value of a log-norm.
function factorText(logNorm) {
  const size = Math.abs(logNorm);
  if (size < Math.log(9.95)) return Math.exp(size).toFixed(1);
  return size < Math.log(1e4) ? Math.exp(size).toFixed(0) : `10${raised(Math.round(size / Math.LN10))}`;
}

// The factor of a log-norm with its direction: "× 12" or "÷ 12".
const timesText = (logNorm) => `${logNorm < 0 ? "÷" : "×"}\u00a0${factorText(logNorm)}`;

function progressText(results, milliseconds) {
  const time = milliseconds < 1000 ? `${milliseconds.toFixed(0)}\u00a0ms` : `${(milliseconds / 1000).toFixed(1)}\u00a0s`;
  const { walks } = results[0].settings, drawn = walks > MOST_DRAWN ? `; ${MOST_DRAWN} of them drawn` : "";
  const networks = results.map(({ settings: { depth, width } }) => `${depth} layers of ${width} units`);
  return `${walks} walks through ${networks.join(" and ")}, computed in ${time}${drawn}`;
}

function described(settings, numbers) {
  const { mean, spread, vanished, exploded } = numbers;
  return (
    `A typical gradient ${drift(settings, numbers)}: mean log-norm ${signed(mean)}, spread ${spread.toFixed(2)}. ` +
    `It shrinks more than tenfold in ${percent(vanished)} of the networks and grows more than tenfold in ` +
    `${percent(exploded)}.`
  );
}

// A mean that does not differ significantly from 0 is not called a drift.
function drift({ depth, walks }, { mean, standardError }) {
  const path = `over ${depth} layers`;
  if (Math.abs(mean) < Math.log(2)) return `keeps its norm ${path}`;
  if (Math.abs(mean) < 2 * standardError) return `keeps its norm ${path}, as far as ${walks} walks can tell`;
  return `${mean < 0 ? "shrinks" : "grows"} by a factor of ${factorText(mean)} ${path}`;
}

function gainText({ value, standardError, walks }) {
  if (!Number.isFinite(value)) return "none";
  return walks === 0 ? value.toFixed(5) : `${value.toFixed(4)} ± ${standardError.toFixed(4)}`;
}

function note({ activation, width, depth }, estimate) {
  if (estimate === undefined) return `Solving for ${activation} with the sampler …`;
  const { value, kind, walks, spread } = estimate;
  if (kind === "neutral") return "Exact, and the same at every depth.";
  if (!Number.isFinite(value)) {
    const network = `${depth} ${activation} layers of ${width} units`;
    return `No gain makes the walk of ${network} unbiased. Try a wider or shallower network.`;
  }
  const sampled = `Solved in your browser with ${walks} walks; depends on width and depth.`;
  if (kind === "steady") return sampled;
  return (
    `${sampled} ${activation} is unsteady: no gain serves a deep network. At this gain the mean is 0, but the spread ` +
    `is ${spread.toFixed(1)}, a factor of ${factorText(spread)}, and it grows with depth.`
  );
}

// What the walks of a network are at one column of the picture.
function readoutText({ bounds: { mean, low, high } }, column) {
  return `${signed(mean[column])} (${timesText(mean[column])}), 5 to 95\u00a0%: ${signed(low[column])} to ${signed(high[column])}`;
}
