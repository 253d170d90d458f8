// Draws each panel from the JSON beside it. Colours in the JSON are CSS variables, which are resolved for the current
// theme, and again when the theme changes.
(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: touch ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

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
    const figure = resolved(JSON.parse(source.textContent), getComputedStyle(document.documentElement));
    if (touch) figure.layout.dragmode = false; // dragging a finger over a plot scrolls the page
    return window.Plotly.react(plot, figure.data, figure.layout, config);
  }

  async function drawAll() {
    for (const plot of document.querySelectorAll(".plot")) {
      await draw(plot);
      await new Promise((next) => setTimeout(next)); // keep the page responsive between plots
    }
    document.documentElement.dataset.drawn = dark.matches ? "dark" : "light";
  }

  dark.addEventListener("change", drawAll);
  drawAll();
})();
