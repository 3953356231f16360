// Sets the chosen theme before anything is drawn; a classic script, because modules run after the first paint.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("skitter.theme");
  } catch {
    // Storage is switched off: the system's theme.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
