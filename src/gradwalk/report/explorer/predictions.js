// Work in slices of a few milliseconds, and the unbiased gains, each computed once per network.

const SLICE = 10; // milliseconds of work before the browser may draw and handle input

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

// What is predicted of a network, filled in as its generator runs: `rough`, a first value of the unbiased gain, then
// `estimate`, then `curve`. A closed form is ready at once; a prediction that was started is resumed.
class Predictions {
  constructor() {
    this.known = new Map();
  }

  of(network) {
    const key = [network.activation, network.weights, network.width, network.depth].join();
    if (!this.known.has(key)) {
      const prediction = {};
      prediction.steps = predictionSteps(prediction, network);
      this.known.set(key, prediction);
      if (ACTIVATIONS[network.activation].kind === "neutral") atOnce(prediction.steps);
    }
    return this.known.get(key);
  }
}

// The prediction has random numbers of its own.
function* predictionSteps(prediction, { activation, weights, width, depth }) {
  const network = { activation, weights, width, depth, seed: 0 };
  prediction.estimate = yield* gainSteps(network, (value) => (prediction.rough = value));
  prediction.rough = prediction.estimate.value;
  yield;
  prediction.curve = yield* curveSteps(network, prediction.estimate);
  return true;
}

// Runs a prediction until one of its parts is known.
function* untilKnown(prediction, part) {
  while (prediction[part] === undefined) {
    prediction.steps.next();
    yield;
  }
  return true;
}
