// What the theme leaves to a pointer is reached by the keyboard too, and has a name.
const WIDE = ".md-typeset__scrollwrap, .md-typeset math[display=block], .md-typeset p:has(> img.wide)";

document$.subscribe(() => {
  document.querySelector(".md-search").setAttribute("aria-label", "Search");
  for (const node of document.querySelectorAll(WIDE)) if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
});
