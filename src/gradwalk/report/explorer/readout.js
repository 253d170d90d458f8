// The numbers at one layer of the picture, read with a pointer, a finger or the arrow keys.

const element = (name) => document.getElementById(`explorer-${name}`);

function made(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

class Readout {
  constructor() {
    this.place = null;
    this.results = [];
    this.at = null; // layers from the output, null while nothing is read
    const picture = element("walks-picture");
    for (const event of ["pointermove", "pointerdown"]) {
      picture.addEventListener(event, ({ clientX }) => this.read(this.layersAt(clientX)));
    }
    picture.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && this.read(null));
    picture.addEventListener("blur", () => this.read(null));
    picture.addEventListener("keydown", (event) => this.readByKey(event));
  }

  // Reads another picture from now on.
  over(place, results) {
    Object.assign(this, { place, results });
    if (place !== null) element("walks-picture").setAttribute("aria-valuemax", place.x.high);
    this.read(this.at === null ? null : Math.min(this.at, place?.x.high ?? 0));
  }

  layersAt(clientX) {
    if (this.place === null) return null;
    const { box, x } = this.place, { left } = element("walks-picture").getBoundingClientRect();
    const share = (clientX - left - box.left) / (box.right - box.left);
    return Math.round(Math.max(0, Math.min(1, share)) * x.high);
  }

  readByKey(event) {
    const last = this.place?.x.high ?? 0, at = this.at ?? last, stride = Math.max(1, Math.round(last / 50));
    const targets = {
      ArrowLeft: at - stride, ArrowDown: at - stride, ArrowRight: at + stride, ArrowUp: at + stride,
      PageDown: at - 5 * stride, PageUp: at + 5 * stride, Home: 0, End: last,
    };
    if (event.key === "Escape") this.read(null);
    if (!(event.key in targets)) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, targets[event.key])));
  }

  // Shows the numbers at so many layers from the output; none for null.
  read(layers) {
    this.at = layers;
    const readout = element("readout"), picture = element("walks-picture");
    readout.hidden = layers === null || this.place === null;
    if (readout.hidden) return blank(element("cursor"));
    const columns = this.results.map(({ travelled }) => columnAt(travelled, layers));
    drawCursor(element("cursor"), this.place, this.results, columns);
    const shown = Math.max(...this.results.map(({ travelled }, k) => travelled[columns[k]]));
    const lines = this.results.map((result, k) => this.named(readoutText(result, columns[k]), k));
    readout.replaceChildren(...[`${shown} layers back`, ...lines].map((words) => made("div", {}, words)));
    readout.className = this.place.X(shown) > picture.clientWidth / 2 ? "left" : "right";
    picture.setAttribute("aria-valuenow", shown);
    picture.setAttribute("aria-valuetext", `${shown} layers back: ${lines.join("; ")}`);
  }

  named(words, place) {
    return this.results.length > 1 ? `${LETTERS[place].toUpperCase()}: ${words}` : words;
  }
}

// The last column that is not beyond so many layers.
function columnAt(travelled, layers) {
  let column = 0;
  while (column < travelled.length - 1 && travelled[column + 1] <= layers) column++;
  return column;
}
