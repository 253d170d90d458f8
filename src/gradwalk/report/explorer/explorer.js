// The page: simulates the chosen networks in slices, draws the walks over each other and describes them.

const PATIENCE = 100; // milliseconds for which a stale job may continue, so that dragging a slider shows whole pictures
const REACH = Math.log(1000); // change of the log-norm at layer 0 from the middle of the gain's slider to an end
const STAGES = ["rough", "estimate", "curve"];

const KINDS = {
  neutral: "neutral: the gain is exact and the same at every depth",
  steady: "steady: the gain is sampled and depends on depth",
  unsteady: "unsteady: the spread grows with depth",
};

class Page {
  constructor() {
    this.predictions = new Predictions();
    this.choice = choiceOf(window.location.hash) ?? firstChoice();
    this.current = 0; // index of the network that the controls change
    this.changes = 0;
    this.running = false;
    this.results = []; // what is drawn, one result per network
    this.readout = new Readout();
    this.fillControls();
    this.listen();
    this.changed();
    if (choiceOf(window.location.hash)) element("title").scrollIntoView();
  }

  get network() {
    return this.choice.networks[this.current];
  }

  fillControls() {
    const groups = Object.entries(KINDS).map(([kind, label]) => {
      const names = Object.keys(ACTIVATIONS).filter((name) => ACTIVATIONS[name].kind === kind);
      return made("optgroup", { label }, ...names.map((name) => new Option(name, name)));
    });
    element("activation").append(...groups);
    for (const [name, values] of [["width", SIZES], ["depth", SIZES], ["walks", COUNTS]]) {
      Object.assign(element(name), { min: 0, max: values.length - 1, step: 1 });
    }
    const unbiased = { label: "Unbiased", title: "The gain at which the walk has no drift" };
    const rules = Object.entries({ unbiased, ...PRESETS });
    const button = ([rule, { label, title }]) => made("button", { type: "button", id: `explorer-${rule}`, title }, label);
    element("rules").append(...rules.map(button));
  }

  listen() {
    const on = (name, event, action) => element(name).addEventListener(event, action);
    on("activation", "input", ({ target }) => this.change({ activation: target.value, ...this.followed() }));
    on("weights", "input", ({ target }) => this.change({ weights: target.value, ...this.followed() }));
    on("width", "input", ({ target }) => this.change({ width: SIZES[target.value] }));
    on("depth", "input", ({ target }) => this.change({ depth: SIZES[target.value] }));
    on("gain", "input", ({ target }) => this.change({ rule: "own", gain: Number(target.value) }));
    on("gain-slider", "input", ({ target }) => this.change(this.slid(Number(target.value))));
    for (const rule of ["unbiased", ...Object.keys(PRESETS)]) on(rule, "click", () => this.change({ rule }));
    on("walks", "input", ({ target }) => this.changeAll({ walks: COUNTS[target.value] }));
    on("seed", "input", ({ target }) => this.changeAll({ seed: target.value === "" ? NaN : Number(target.value) }));
    on("network-a", "click", () => this.select(0));
    on("network-b", "click", () => this.select(1));
    on("remove", "click", () => this.remove());
    on("controls", "submit", (event) => event.preventDefault());
    on("copy-link", "click", () => this.copyLink());
    on("copy-python", "click", () => this.copy(pythonOf(this.choice), "the Python code"));
    const redraw = () => this.redraw();
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    window.addEventListener("hashchange", () => this.open(choiceOf(window.location.hash)));
    new ResizeObserver(redraw).observe(element("walks-picture"));
  }

  // A gain of the visitor's own belongs to an activation and its weights; with others, the gain is the unbiased one.
  followed() {
    return this.network.rule === "own" ? { rule: "unbiased" } : {};
  }

  slid(position) {
    const { value, slope } = this.centre(this.network);
    if (position === 0) return { rule: "unbiased" };
    return { rule: "own", gain: shortGain(value * Math.exp(((position / 100) * REACH) / slope)) };
  }

  change(changes) {
    Object.assign(this.network, changes);
    this.changed();
  }

  changeAll(changes) {
    Object.assign(this.choice, changes);
    this.changed();
  }

  // A second network begins as the first one with the weights that most people would give it.
  select(place) {
    const { networks } = this.choice;
    if (place === networks.length) networks.push({ ...networks[0], rule: networks[0].rule === "he" ? "unbiased" : "he" });
    this.current = place;
    this.changed();
  }

  remove() {
    this.choice.networks.length = 1;
    this.select(0);
    element("network-b").focus();
  }

  open(choice) {
    if (choice === null) return;
    this.choice = choice;
    this.select(0);
    element("title").scrollIntoView();
  }

  changed() {
    this.showControls();
    element("python").textContent = pythonOf(this.choice);
    element("copied").textContent = "";
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
      await this.show(() => this.changes !== seen);
    } while (this.changes !== seen);
    element("result").setAttribute("aria-busy", "false");
    this.running = false;
  }

  // The walks are drawn at the first value of the unbiased gain, and again when it is refined.
  async show(stale) {
    try {
      checkChoice(this.choice);
      const networks = this.choice.networks.map((network) => ({ ...network }));
      for (const stage of STAGES) {
        for (const network of networks) {
          if (!(await inSlices(untilKnown(this.predictions.of(network), stage), stale))) return;
          this.showPrediction();
        }
        if (!(await this.showWalks(networks, stale))) return;
      }
      await this.showAngles(stale);
    } catch (error) {
      this.results = [];
      element("result").textContent = error.message;
      element("progress").textContent = "";
    }
  }

  async showWalks(networks, stale) {
    const { walks, seed } = this.choice, started = performance.now(), results = [];
    for (const network of networks) {
      const settings = { ...network, gain: this.gainOf(network), walks, seed };
      const result = this.shownBefore(settings) ?? (await this.walksOf(settings, started, stale));
      if (result === undefined) return false;
      results.push(result);
    }
    const fresh = results.some((result) => !this.results.includes(result)) || results.length !== this.results.length;
    this.results = results;
    this.redraw();
    if (fresh) this.showNumbers(performance.now() - started);
    return true;
  }

  // The angles come last: they need vectors even where the walk does not.
  async showAngles(stale) {
    for (const result of this.results) {
      if (result.angles || result.settings.width < LEAST_WIDTH) continue;
      const settings = { ...result.settings, walks: Math.min(result.settings.walks, MOST_PAIRS) };
      const angles = await inSlices(anglesInto({}, settings), stale);
      if (angles === undefined) return;
      result.angles = angles;
    }
    this.redraw();
  }

  drawDirections() {
    const complete = this.results.every(({ angles }) => angles !== undefined);
    element("angles-figure").hidden = !complete;
    if (!complete) return;
    drawAngles(element("angles-picture"), this.results);
    const words = this.results.map(({ angles, settings }, place) => {
      const name = this.results.length > 1 ? `${LETTERS[place].toUpperCase()}: ` : "";
      return `${name}${directionsOf(angles).at(-1).toFixed(1)} directions of ${settings.width} pass.`;
    });
    element("directions").textContent = words.join(" ");
  }

  shownBefore(settings) {
    const key = JSON.stringify(checkSettings(settings));
    return this.results.find((result) => JSON.stringify(result.settings) === key);
  }

  async walksOf(settings, started, stale) {
    const result = {};
    let reported = started;
    const finished = await inSlices(walksInto(result, settings), () => {
      const now = performance.now();
      if (stale() && now - started > PATIENCE) return true;
      if (now - reported > PATIENCE) {
        element("progress").textContent = `${result.finals.length} of ${settings.walks} walks …`;
        reported = now;
      }
      return false;
    });
    return finished && Object.assign(result, { bounds: band(result) });
  }

  gainOf(network) {
    const { rule, gain: own } = network;
    if (rule === "own") return own;
    if (rule in PRESETS) return PRESETS[rule].gain;
    const { estimate, rough } = this.predictions.of(network), value = estimate?.value ?? rough;
    return Number.isFinite(value) ? value : PRESETS.xavier.gain;
  }

  // The gain in the middle of the slider and the change of the log-norm per change of its logarithm.
  centre(network) {
    const { estimate, rough } = this.predictions.of(network);
    return estimate ?? { value: rough, slope: network.depth };
  }

  redraw() {
    if (this.results.length === 0) return;
    this.readout.over(drawWalks(element("walks-picture"), this.results), this.results);
    this.drawDirections();
    const { curve, estimate } = this.predictions.of(this.network), result = this.results[this.current];
    element("curve-figure").hidden = curve?.length === 0; // keeps its place while it is computed
    if (curve === undefined || result === undefined) blank(element("curve-picture"));
    else if (curve.length) {
      const now = { gain: result.settings.gain, ...summary(result) };
      drawCurve(element("curve-picture"), curve, estimate, now, LETTERS[this.current]);
    }
  }

  // Shows what the controls are set to.
  showControls() {
    const { network, choice } = this, pair = choice.networks.length > 1;
    element("activation").value = network.activation;
    element("weights").value = network.weights;
    for (const [name, values, value] of [
      ["width", SIZES, network.width], ["depth", SIZES, network.depth], ["walks", COUNTS, choice.walks],
    ]) {
      element(name).value = values.indexOf(value);
      element(name).setAttribute("aria-valuetext", value);
      element(`${name}-value`).textContent = value;
    }
    if (document.activeElement !== element("seed")) element("seed").value = choice.seed;
    element("controls").dataset.network = LETTERS[this.current];
    LETTERS.forEach((letter, place) => element(`network-${letter}`).setAttribute("aria-pressed", place === this.current));
    element("network-b").textContent = pair ? "Network B" : "+ Network B";
    element("remove").hidden = !pair;
    this.showPrediction();
  }

  showPrediction() {
    const { network } = this, { estimate } = this.predictions.of(network);
    element("prediction").textContent = estimate === undefined ? "…" : gainText(estimate);
    element("note").textContent = note(network, estimate);
    const label = `Mean log-norm at layer 0 against the gain: 0 at ${element("prediction").textContent}`;
    element("curve-picture").setAttribute("aria-label", label);
    for (const rule of ["unbiased", ...Object.keys(PRESETS)]) {
      element(rule).setAttribute("aria-pressed", network.rule === rule);
    }
    element("unbiased").disabled = Number.isNaN(estimate?.value);
    this.showGain(network);
  }

  showGain(network) {
    const g = this.gainOf(network), slider = element("gain-slider"), { value, slope } = this.centre(network);
    slider.disabled = !Number.isFinite(value);
    if (document.activeElement !== element("gain")) {
      element("gain").value = slider.disabled && network.rule === "unbiased" ? "" : shortGain(g);
    }
    if (slider.disabled) return;
    const offset = Math.log(g / value) * slope;
    slider.value = Math.round((100 * offset) / REACH);
    slider.setAttribute("aria-valuetext", `${shortGain(g)}: gradient ${timesText(offset)}`);
  }

  showNumbers(milliseconds) {
    const { results } = this, pair = results.length > 1;
    const sentences = results.map((result) => described(result.settings, summary(result)));
    const named = (words, place) => made("p", {}, pair ? `${LETTERS[place].toUpperCase()}: ${words}` : words);
    element("result").replaceChildren(...sentences.map(named));
    element("progress").textContent = progressText(results, milliseconds) + resampledText(results);
    element("numbers").tBodies[0].replaceChildren(...results.map((result, place) => this.numbersRow(result, place)));
    element("walks-key").replaceChildren(...results.flatMap(({ settings }, place) => keys(settings, LETTERS[place], pair)));
  }

  numbersRow(result, place) {
    const { settings } = result, { mean, standardError, spread, vanished, exploded } = summary(result);
    const { estimate } = this.predictions.of(settings), exact = estimate?.kind === "neutral";
    const theory = (value) => (exact ? made("span", { className: "quiet" }, ` theory ${value}`) : "");
    const expected = exact ? settings.depth * Math.log(settings.gain / estimate.value) : NaN;
    const cells = [
      [String(shortGain(settings.gain))],
      [`${signed(mean)} ± ${standardError.toFixed(2)}`, theory(signed(expected))],
      [spread.toFixed(2), theory(estimate?.spread.toFixed(2))],
      [percent(vanished)],
      [percent(exploded)],
    ];
    const name = made("th", { scope: "row" }, `${LETTERS[place].toUpperCase()}: ${settings.activation}`);
    return made("tr", {}, name, ...cells.map((content) => made("td", {}, ...content)));
  }

  copyLink() {
    const address = window.location.href.split("#")[0] + linkOf(this.choice);
    window.history.replaceState(null, "", linkOf(this.choice));
    this.copy(address, "the link");
  }

  async copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
      element("copied").textContent = `Copied ${what}.`;
    } catch {
      element("copied").textContent = `The browser did not allow copying. It is ${what}: ${text}`;
    }
  }
}

function keys({ activation }, letter, pair) {
  const name = pair ? `${letter.toUpperCase()}, ${activation}: ` : "";
  const key = (kind, words) => made("span", { className: `key ${kind}-${letter}` }, words);
  return [key("walk", `${name}walks`), key("mean", "mean"), key("band", "5 to 95\u00a0% of the walks")];
}

function resampledText(results) {
  const count = results.reduce((sum, { resampled }) => sum + resampled, 0);
  return count === 0 ? "" : `; ${count} inactive layers were drawn again`;
}

function checkChoice({ networks, seed }) {
  const whole = Number.isInteger(seed) && seed >= 0 && seed <= MOST_SEED;
  if (!whole) throw new Error(`The seed must be a whole number from 0 to ${MOST_SEED}.`);
  if (networks.some(({ rule, gain: g }) => rule === "own" && !isGain(g))) {
    throw new Error(`The gain must be a number from ${GAINS[0]} to ${GAINS[1]}.`);
  }
}

globalThis.gradwalkExplorer = {
  simulate, gain, step, digamma, trigamma, erf, normalShare, linkOf, choiceOf, pythonOf,
  activations: ACTIVATIONS,
  normals(seed, count) {
    const numbers = new Float32Array(count);
    new Normals(seed, 0, 1).fill(numbers, 0, count);
    return Array.from(numbers);
  },
  angles(settings, columns) {
    const result = atOnce(anglesInto({}, settings, columns));
    return { ...result, directions: directionsOf(result) };
  },
  curve: (settings, estimate) => atOnce(curveSteps(settings, estimate)),
};

// Without a page, as in Node, only the functions are defined.
if (typeof document !== "undefined") globalThis.gradwalkExplorer.page = new Page();
