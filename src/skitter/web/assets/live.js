// The one stream of events of a tab: open while the tab is shown, closed while it is hidden.

import { url } from "./api.js";

const EVENTS = ["job", "jobs", "sample", "problem"];
const LONGEST_WAIT_MS = 15_000;

export class Live {
  #source = null;
  #query = null;
  #listeners = new Map();
  #last = new Map();
  #timer = 0;
  #failures = 0;

  /** tellState is called with connecting, live, lost, hidden or off; checkSession when the stream was refused. */
  constructor(tellState, checkSession) {
    this.tellState = tellState;
    this.checkSession = checkSession;
    document.addEventListener("visibilitychange", () => this.#follow());
    window.addEventListener("online", () => this.#reopen());
    window.addEventListener("pagehide", () => this.#close());
    window.addEventListener("pageshow", () => this.#follow());
  }

  /** Watch what a page shows; null: nothing. What is watched already goes on. */
  watch(query) {
    const wanted = query && url("/events", query);
    if (wanted === this.#query) return;
    this.#query = wanted;
    this.#last.clear();
    this.#close();
    this.#failures = 0;
    this.#follow();
  }

  /** Listen to an event, at once if one has come already; returns how to stop. */
  on(event, listener) {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    if (this.#last.has(event)) listener(this.#last.get(event));
    return () => listeners.delete(listener);
  }

  #follow() {
    if (!this.#query) {
      this.#close();
      this.tellState("off");
    } else if (document.visibilityState === "hidden") {
      this.#close();
      this.tellState("hidden");
    } else if (!this.#source) this.#open();
  }

  #reopen() {
    this.#close();
    this.#follow();
  }

  #open() {
    clearTimeout(this.#timer);
    this.tellState(this.#failures ? "lost" : "connecting");
    const source = new EventSource(this.#query);
    this.#source = source;
    source.onopen = () => {
      this.#failures = 0;
      this.tellState("live");
    };
    source.onerror = () => {
      this.#failures += 1;
      this.tellState("lost");
      // The browser tries again by itself, unless the server has answered with an error.
      if (source.readyState !== EventSource.CLOSED) return;
      this.#close();
      const wait = Math.min(LONGEST_WAIT_MS, 1000 * 2 ** Math.min(this.#failures, 4)) * (0.75 + Math.random() / 2);
      this.#timer = setTimeout(() => this.#follow(), wait);
      this.checkSession();
    };
    for (const event of EVENTS) source.addEventListener(event, (message) => this.#tell(event, message.data));
  }

  #tell(event, text) {
    const data = JSON.parse(text);
    if (event !== "sample") this.#last.set(event, data);
    for (const listener of this.#listeners.get(event) ?? []) listener(data);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }
}
