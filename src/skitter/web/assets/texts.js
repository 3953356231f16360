// Texts of the chosen language, from texts/LANGUAGE.json.

export const LANGUAGES = { en: "English", zh: "中文" };

let texts = {};
let chosen = "en";

function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is switched off
  }
}

/** Remember a choice of this browser. */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Storage is switched off: the choice lasts as long as the page.
  }
}

export function recall(key) {
  return stored(key);
}

/** Load the texts of the language that was chosen, or that the browser asks for. */
export async function loadTexts(language = stored("skitter.language")) {
  const asked = language || navigator.languages.map((tag) => tag.split("-")[0]).find((tag) => tag in LANGUAGES);
  chosen = asked in LANGUAGES ? asked : "en";
  const answer = await fetch(`assets/texts/${chosen}.json`);
  texts = await answer.json();
  document.documentElement.lang = chosen === "zh" ? "zh-Hans" : chosen;
}

export function language() {
  return chosen;
}

/** The text of a key, with its {values} put in. */
export function t(key, values = {}) {
  const text = texts[key];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** The text of a key that may be missing: names that come from the server. */
export function named(prefix, name) {
  return texts[`${prefix}.${name}`] ?? name;
}
