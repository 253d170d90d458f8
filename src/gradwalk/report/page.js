// Draws each panel from the JSON beside it. Colours in the JSON are CSS variables, which are resolved for the current
// theme, and again when the theme changes or the page is printed.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  // No mode bar: it would cover the data. Dragging zooms, and a double click shows everything again.
  const config = { responsive: true, displayModeBar: false, showTips: false };
  window.Plotly.setPlotConfig({ logging: 0 }); // it warns where a legend leaves little room on paper

  function resolved(value, style) {
    if (typeof value === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(value);
      return name ? style.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => resolved(item, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, style)]));
  }

  function draw(plot) {
    const source = document.querySelector(`script[data-for="${plot.id}"]`);
    const figure = resolved(JSON.parse(source.textContent), getComputedStyle(root));
    if (touch) figure.layout.dragmode = false; // dragging a finger over a plot scrolls the page
    return window.Plotly.react(plot, figure.data, figure.layout, config);
  }

  async function drawAll() {
    for (const plot of document.querySelectorAll(".plot")) {
      await draw(plot);
      await new Promise((next) => setTimeout(next)); // keep the page responsive between plots
    }
    root.dataset.drawn = dark.matches ? "dark" : "light";
  }

  // On paper everything that is collapsed is shown, and panels have the width of the sheet.
  const opened = [];
  function prepareForPaper() {
    root.dataset.print = "";
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      opened.push(details);
    }
    drawInPlace();
  }

  function returnToScreen() {
    delete root.dataset.print;
    for (const details of opened.splice(0)) details.open = false;
    drawInPlace();
  }

  // A panel takes the width of its place when it is drawn anew; to resize it would take longer than a printer waits.
  function drawInPlace() {
    for (const plot of document.querySelectorAll(".plot")) {
      window.Plotly.purge(plot);
      draw(plot);
    }
  }

  window.addEventListener("beforeprint", prepareForPaper);
  window.addEventListener("afterprint", returnToScreen);
  dark.addEventListener("change", drawAll);
  drawAll();
})();
