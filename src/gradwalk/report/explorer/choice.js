// What a visitor chooses: up to two networks, the number of walks and the seed; as a link, and as Python.

const SIZES = [
  2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300, 400, 500, 600, 800, 1000,
];
const COUNTS = [10, 20, 40, 60, 100, 200, 400];
const GAINS = [0.01, 100]; // least and greatest gain of the number field
const MOST_SEED = 2 ** 31 - 1;
const LETTERS = ["a", "b"];

// Gains by name: weights have variance g^2 / N. He: 2 / N. Xavier: 1 / N between layers of equal width. torch.nn.Linear
// draws uniformly with variance 1 / (3 N).
const PRESETS = {
  he: { label: "He", title: "He or Kaiming: g = √2", gain: Math.SQRT2, python: "2**0.5" },
  xavier: { label: "Xavier", title: "Xavier or Glorot: g = 1", gain: 1, python: "1.0" },
  torch: { label: "torch", title: "The default of torch.nn.Linear: g = 1/√3", gain: 1 / Math.sqrt(3), python: "3**-0.5" },
};

const FIRST = { activation: "relu", weights: "gaussian", width: 100, depth: 200, rule: "unbiased", gain: NaN };

// `rule` is "unbiased", the name of a preset, or "own", with the gain beside it.
function firstChoice() {
  return { networks: [{ ...FIRST }], walks: 60, seed: 1 };
}

function nearest(values, value) {
  return values.reduce((best, each) => (Math.abs(each - value) < Math.abs(best - value) ? each : best));
}

function linkOf({ networks, walks, seed }) {
  const parts = networks.map(({ activation, weights, width, depth, rule, gain: g }, place) => {
    return `${LETTERS[place]}=${[activation, weights, width, depth, rule === "own" ? g : rule].join(",")}`;
  });
  return `#explorer?${[...parts, `walks=${walks}`, `seed=${seed}`].join("&")}`;
}

// The choice of a link, or null if it is not one. What cannot be used is replaced by what the explorer opens with.
function choiceOf(link) {
  const start = "#explorer?";
  if (!link.startsWith(start)) return null;
  const given = new URLSearchParams(link.slice(start.length)), choice = firstChoice();
  const networks = LETTERS.filter((letter) => given.has(letter)).map((letter) => networkIn(given.get(letter)));
  if (networks.length) choice.networks = networks;
  choice.walks = nearest(COUNTS, Number(given.get("walks")) || choice.walks);
  const seed = Number(given.get("seed") ?? choice.seed);
  if (Number.isInteger(seed) && seed >= 0 && seed <= MOST_SEED) choice.seed = seed;
  return choice;
}

function networkIn(text) {
  const [activation, weights, width, depth, rule] = text.split(","), network = { ...FIRST };
  if (Object.hasOwn(ACTIVATIONS, activation)) network.activation = activation;
  if (weights === "orthogonal") network.weights = weights;
  network.width = nearest(SIZES, Number(width) || FIRST.width);
  network.depth = nearest(SIZES, Number(depth) || FIRST.depth);
  if (Object.hasOwn(PRESETS, rule)) network.rule = rule;
  else if (isGain(Number(rule))) Object.assign(network, { rule: "own", gain: Number(rule) });
  return network;
}

function isGain(value) {
  return value >= GAINS[0] && value <= GAINS[1];
}

// Python that draws the same networks; the random numbers differ.
function pythonOf({ networks, walks, seed }) {
  const single = networks.length === 1, lines = ["import gradwalk as gw", ""];
  networks.forEach((network, place) => {
    const name = single ? "walks" : LETTERS[place], { activation, width, depth, weights } = network;
    const law = `"${activation}", width=${width}, depth=${depth}` + (weights === "gaussian" ? "" : `, weights="${weights}"`);
    lines.push(`gain = ${gainPython(network, law)}`);
    lines.push(`${name} = gw.simulate(${law}, gain=gain, walks=${walks}, rng=${seed})`);
    lines.push(`print(${name}.mean, ${name}.spread)`);
  });
  lines.push(single ? "walks.plot()" : "b.plot(ax=a.plot())");
  return `${lines.join("\n")}\n`;
}

function gainPython({ rule, gain: g }, law) {
  if (rule === "unbiased") return `gw.gain(${law})`;
  return rule === "own" ? String(g) : PRESETS[rule].python;
}
