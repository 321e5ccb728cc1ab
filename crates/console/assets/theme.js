"use strict";
// Light or dark, before the first paint. In order: `?theme=dark` for this visit, what was chosen here before, the
// system. A script of its own, because modules run after the page has been painted once.
(() => {
  const known = (theme) => theme === "light" || theme === "dark";
  const asked = new URLSearchParams(location.search).get("theme");
  let kept = null;
  try {
    kept = localStorage.getItem("tollgate.theme");
  } catch {
    // Storage may be forbidden; the system's choice is a good one.
  }
  const theme = known(asked) ? asked : kept;
  if (known(theme)) document.documentElement.dataset.theme = theme;
})();
