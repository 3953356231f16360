// Fills the list of versions. `versions` comes from ../versions.js, which `make site` writes for all builds of a folder;
// it is a script and not JSON, because pages that are opened as files may not fetch.
document.addEventListener("DOMContentLoaded", () => {
  const list = document.getElementById("version");
  if (!list || typeof versions === "undefined") return;
  const own = list.value;
  list.replaceChildren(...versions.map((name) => new Option(name, name, name === own, name === own)));
  list.addEventListener("change", () => {
    const pages = versionPages[list.value];
    const page = pages.includes(list.dataset.page) ? list.dataset.page : "docs/index.html";
    location.href = `${list.dataset.root}../${list.value}/${page}`;
  });
});
