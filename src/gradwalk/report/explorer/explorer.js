// The page: simulates the chosen network in slices of a few milliseconds, draws the walks and describes them.

const SIZES = [
  2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300, 400, 500, 600, 800, 1000,
];
const COUNTS = [10, 20, 40, 60, 100, 200, 400];
const GAINS = [0.1, 100]; // range of the number field; the slider covers the neighbourhood of the unbiased gain
const SLICE = 10; // milliseconds of work before the browser may draw and handle input
const PATIENCE = 100; // milliseconds for which a stale job may continue, so that dragging a slider shows whole pictures

const KINDS = {
  neutral: "neutral: the gain is exact and the same at every depth",
  steady: "steady: the gain is sampled and depends on depth",
  unsteady: "unsteady: the spread grows with depth",
};

const element = (name) => document.getElementById(`explorer-${name}`);

// Runs a generator to its end in slices and returns its value, or undefined if `stop()` returns true after a slice.
async function inSlices(steps, stop) {
  for (;;) {
    const until = performance.now() + SLICE;
    do {
      const { done, value } = steps.next();
      if (done) return value;
    } while (performance.now() < until);
    if (stop()) return undefined;
    await nextTask();
  }
}

// A message is delivered without the delay of a timer, and after pending input.
function nextTask() {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}

class Page {
  constructor() {
    this.predictions = new Map(); // by everything but the gain: { steps, estimate, curve }
    this.changes = 0;
    this.running = false;
    this.last = null; // what is shown: { result, prediction }
    this.fillControls();
    this.listen();
    element("gain").value = gain(this.settings()).value.toFixed(5);
    this.changed();
  }

  fillControls() {
    const groups = Object.entries(KINDS).map(([kind, label]) => {
      const group = Object.assign(document.createElement("optgroup"), { label });
      const names = Object.keys(ACTIVATIONS).filter((name) => ACTIVATIONS[name].kind === kind);
      group.append(...names.map((name) => new Option(name, name)));
      return group;
    });
    element("activation").append(...groups);
    element("activation").value = "relu";
    this.fillSlider("width", SIZES, 100);
    this.fillSlider("depth", SIZES, 200);
    this.fillSlider("walks", COUNTS, 60);
  }

  fillSlider(name, values, first) {
    Object.assign(element(name), { min: 0, max: values.length - 1, step: 1, value: values.indexOf(first) });
  }

  listen() {
    for (const name of ["activation", "weights", "width", "depth", "walks", "seed", "gain"]) {
      element(name).addEventListener("input", () => this.changed());
    }
    element("gain-slider").addEventListener("input", (event) => this.setGain(event.target.value));
    element("unbiased").addEventListener("click", () => this.setGain(this.estimate().value.toFixed(5)));
    element("controls").addEventListener("submit", (event) => event.preventDefault());
    const redraw = () => this.redraw();
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    new ResizeObserver(redraw).observe(element("walks-picture"));
  }

  settings() {
    return {
      activation: element("activation").value,
      weights: element("weights").value,
      width: SIZES[element("width").value],
      depth: SIZES[element("depth").value],
      gain: Number(element("gain").value),
      walks: COUNTS[element("walks").value],
      seed: Math.trunc(Number(element("seed").value)),
    };
  }

  setGain(value) {
    element("gain").value = value;
    this.changed();
  }

  estimate() {
    return this.predictions.get(keyOf(this.settings()))?.estimate;
  }

  changed() {
    const settings = this.settings();
    for (const name of ["width", "depth", "walks"]) {
      element(`${name}-value`).textContent = settings[name];
      element(name).setAttribute("aria-valuetext", settings[name]);
    }
    this.changes++;
    if (!this.running) this.keepUp();
  }

  // Runs one job at a time; later changes are taken up when the job ends or stops.
  async keepUp() {
    this.running = true;
    element("result").setAttribute("aria-busy", "true");
    let seen;
    do {
      seen = this.changes;
      await this.show(this.settings(), () => this.changes !== seen);
    } while (this.changes !== seen);
    element("result").setAttribute("aria-busy", "false");
    this.running = false;
  }

  async show(settings, stale) {
    try {
      checkPage(settings);
      const prediction = this.predictionOf(settings);
      this.showPrediction(settings, prediction);
      if (!(await this.showWalks(settings, prediction, stale))) return;
      await this.showSolving(settings, prediction, stale);
    } catch (error) {
      element("result").textContent = error.message;
      element("progress").textContent = "";
    }
  }

  // A prediction that was started for the same network is resumed. A closed form is ready before anything is drawn.
  predictionOf(settings) {
    const key = keyOf(settings);
    if (!this.predictions.has(key)) {
      const prediction = {};
      prediction.steps = predictionSteps(prediction, settings);
      this.predictions.set(key, prediction);
      if (ACTIVATIONS[settings.activation].kind === "neutral") atOnce(prediction.steps);
    }
    return this.predictions.get(key);
  }

  // Shows the gain as soon as it is known, and later the curve around it.
  async showSolving(settings, prediction, stale) {
    if (prediction.curve !== undefined) return;
    await inSlices(prediction.steps, () => {
      this.showPrediction(settings, prediction);
      return stale();
    });
    this.showPrediction(settings, prediction);
    this.redraw();
  }

  async showWalks(settings, prediction, stale) {
    const started = performance.now(), result = {};
    let drawn = started;
    const finished = await inSlices(walksInto(result, settings), () => {
      const now = performance.now();
      if (stale() && now - started > PATIENCE) return true;
      if (now - drawn > PATIENCE && result.finals.length > 1) {
        this.draw(result, prediction);
        element("progress").textContent = `${result.finals.length} of ${settings.walks} walks …`;
        drawn = now;
      }
      return false;
    });
    if (!finished) return false;
    this.draw(result, prediction);
    this.showNumbers(result, prediction, performance.now() - started);
    return true;
  }

  draw(result, prediction) {
    this.last = { result, prediction };
    this.redraw();
  }

  redraw() {
    if (this.last === null) return;
    const { result, prediction } = this.last, { curve, estimate } = prediction;
    drawWalks(element("walks-picture"), result);
    element("curve-figure").hidden = curve?.length === 0; // keeps its place while it is computed
    if (curve === undefined) blank(element("curve-picture"));
    if (curve?.length) {
      drawCurve(element("curve-picture"), curve, estimate, { gain: result.settings.gain, ...summary(result) });
    }
  }

  showNumbers(result, { estimate }, milliseconds) {
    const { settings } = result, numbers = summary(result);
    const sentence = described(settings, numbers);
    element("result").textContent = sentence;
    element("walks-picture").setAttribute("aria-label", `Walks of the log-norm of the gradient. ${sentence}`);
    element("progress").textContent = progressText(settings, milliseconds);
    element("mean").textContent = `${signed(numbers.mean)} ± ${numbers.standardError.toFixed(2)}`;
    element("spread").textContent = numbers.spread.toFixed(2);
    const exact = estimate?.kind === "neutral";
    element("mean-theory").textContent = exact ? `theory ${signed(theoryMean(settings, estimate))}` : "";
    element("spread-theory").textContent = exact ? `theory ${estimate.spread.toFixed(2)}` : "";
    element("vanished").textContent = percent(numbers.vanished);
    element("exploded").textContent = percent(numbers.exploded);
    element("resampled").textContent = String(numbers.resampled);
    element("resampled").parentElement.hidden = numbers.resampled === 0;
  }

  showPrediction(settings, { estimate }) {
    element("unbiased").disabled = !Number.isFinite(estimate?.value);
    element("prediction").textContent = estimate === undefined ? "…" : gainText(estimate);
    element("note").textContent = note(settings, estimate);
    const label = `Mean log-norm at layer 0 against the gain: 0 at ${element("prediction").textContent}`;
    element("curve-picture").setAttribute("aria-label", label);
    const slider = element("gain-slider");
    slider.max = Math.max(3, Math.ceil(1.5 * (estimate?.value || 0)), Math.ceil(settings.gain));
    slider.value = settings.gain;
  }
}

// Without the seed and the number of walks shown: the prediction has random numbers of its own.
function keyOf({ activation, weights, width, depth }) {
  return [activation, weights, width, depth].join();
}

function* predictionSteps(prediction, { activation, weights, width, depth }) {
  const network = { activation, weights, width, depth, seed: 0 };
  prediction.estimate = yield* gainSteps(network);
  yield;
  prediction.curve = yield* curveSteps(network, prediction.estimate);
  return prediction;
}

function checkPage({ gain: g, seed }) {
  const [low, high] = GAINS;
  if (!(g >= low && g <= high)) throw new Error(`The gain must be a number from ${low} to ${high}.`);
  if (!(seed >= 0 && seed < 2 ** 31)) throw new Error("The seed must be a whole number from 0 to 2147483647.");
}

const signed = (value) => withMinus((Math.round(100 * value) / 100 + 0).toFixed(2)); // + 0 turns -0 into 0
const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
const raised = (power) => String(power).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);

// The factor that corresponds to the absolute value of a log-norm.
function factorText(logNorm) {
  const size = Math.abs(logNorm);
  if (size < Math.log(9.95)) return Math.exp(size).toFixed(1);
  return size < Math.log(1e4) ? Math.exp(size).toFixed(0) : `10${raised(Math.round(size / Math.LN10))}`;
}

function progressText({ walks, depth, width }, milliseconds) {
  const time = milliseconds < 1000 ? `${milliseconds.toFixed(0)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
  const drawn = walks > MOST_DRAWN ? `; ${MOST_DRAWN} of them drawn` : "";
  return `${walks} walks of ${depth} layers of ${width} units in ${time}${drawn}`;
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

function theoryMean({ gain: g, depth }, { value }) {
  return depth * Math.log(g / value);
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

globalThis.gradwalkExplorer = {
  simulate, gain, step, digamma, trigamma, erf, normalShare,
  activations: ACTIVATIONS,
  normals(seed, count) {
    const numbers = new Float32Array(count);
    new Normals(seed, 0, 1).fill(numbers, 0, count);
    return Array.from(numbers);
  },
  curve: (settings, estimate) => atOnce(curveSteps(settings, estimate)),
};

// Without a page, as in Node, only the functions are defined.
if (typeof document !== "undefined") globalThis.gradwalkExplorer.page = new Page();
