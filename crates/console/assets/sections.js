// The six phases, which of them dominates, the histograms, and the alarms that fire.

import { keyed, make, setAttribute, setProse, setText } from "./elements.js";
import * as format from "./format.js";

/** Sign of where a figure comes from: measured or counted here, from a sheet, computed from others, assumed. */
function origin(source) {
  if (source.includes("assumed")) return { sign: "~", kind: "assumed" };
  if (source.includes("sheet")) return { sign: "◇", kind: "sheet" };
  if (source.includes("computed")) return { sign: "=", kind: "computed" };
  return { sign: "●", kind: "measured" };
}

/** Phases 1 to 3 with the CPU that each takes, and the one that takes the most. */
export class DominantLine {
  constructor(box) {
    this.box = box;
    this.text = make("span");
    this.parts = make("span", { class: "parts" });
    box.append(this.text, this.parts);
  }

  show(live) {
    const { dominant, minute } = live;
    setProse(this.text, dominant
      ? `Phase ${dominant.phase}, ${dominant.name}, dominates: ${format.count(Math.round(dominant.micros_per_second))} µs of CPU per second, ${format.share(dominant.share)} of phases 1 to 3.`
      : live.instance.ledger ? "No phase dominates: there was no TLS in the last minute." : "The ledger of CPU time is off: `ledger: on` in the configuration switches it on.");
    const all = [["asymmetric", 1], ["derivation", 2], ["records", 3]].map(([name, phase]) => ({ name, phase, micros: minute.cores[name] * 1e6 }));
    const most = Math.max(...all.map((one) => one.micros), 1);
    keyed(this.parts, dominant ? all : [], (one) => one.name, (one) => make("span", { "data-phase": one.name }, make("i", { "aria-hidden": "true" }), make("span")), (part, one) => {
      part.firstChild.style.width = `${(64 * one.micros) / most}px`;
      setText(part.lastChild, `${one.phase} ${one.name} ${format.count(Math.round(one.micros))} µs/s`);
    });
  }
}

/** So many figures of a box are shown before one asks for more. */
const SHOWN = 8;

function moreOrFewer(event) {
  const all = event.currentTarget.parentNode.classList.toggle("all");
  setAttribute(event.currentTarget, "aria-expanded", String(all));
  if (all) setText(event.currentTarget, "fewer");
}

/** The six boxes. Under each figure stands where it comes from, when asked for. */
export class Phases {
  constructor(box, tools) {
    this.box = box;
    this.button = make("button", { type: "button", "aria-pressed": "false", text: "where each figure comes from", onclick: () => this.toggleSources() });
    tools.append(this.button);
  }

  toggleSources() {
    const on = !this.box.classList.contains("sources");
    this.box.classList.toggle("sources", on);
    setAttribute(this.button, "aria-pressed", String(on));
  }

  show(live) {
    keyed(this.box, live.boxes, (one) => one.phase, (one) => this.#make(one), (card, one) => {
      card.classList.toggle("dominant", live.dominant?.phase === one.phase);
      const [head, about, list, more] = card.children;
      setText(head.children[1].firstChild, one.name);
      const headline = head.children[2];
      setText(headline.children[0], format.inUnit(one.headline.value, one.headline.unit));
      setText(headline.children[1], one.headline.label);
      setAttribute(headline, "title", one.headline.source);
      setText(about, one.about);
      const told = one.readings.some((reading) => reading.label === one.headline.label);
      this.#readings(list, told ? one.readings : [one.headline, ...one.readings], told ? -1 : 0);
      more.hidden = one.readings.length <= SHOWN;
      setText(more, card.classList.contains("all") ? "fewer" : `${one.readings.length - SHOWN} more`);
    });
  }

  #make(one) {
    const name = make("h3", {}, make("span"), make("em", { text: "dominates" }));
    return make("section", { class: "card third phase", "data-phase": one.phase, "aria-label": `Phase ${one.phase}` },
      make("div", { class: "head" }, make("b", { text: one.phase, "aria-hidden": "true" }), name, make("p", { class: "headline" }, make("span"), make("small"))),
      make("p", { class: "about" }), make("dl", { class: "readings" }), make("button", { type: "button", class: "link more", hidden: true, "aria-expanded": "false", onclick: moreOrFewer }));
  }

  /** The headline's own line, where there is one, is for its source: it is shown with the sources. */
  #readings(list, readings, headline) {
    keyed(list, readings, (one, place) => `${place} ${one.label}`, () => make("div", {}, make("dt"), make("dd", {}, make("span"), make("i")), make("dd", { class: "source" })), (line, one, place) => {
      line.classList.toggle("first", place === headline);
      line.classList.toggle("beyond", place > SHOWN + headline);
      const { sign, kind } = origin(one.source);
      setText(line.children[0], one.label);
      setText(line.children[1].firstChild, format.inUnit(one.value, one.unit));
      setText(line.children[1].lastChild, sign);
      setAttribute(line.children[1].lastChild, "data-origin", kind);
      setText(line.children[2], one.source);
      setAttribute(line, "title", one.source);
    });
  }
}

/** A distribution as columns, with what half and nine tenths of the values do not exceed. */
export class Histogram {
  constructor(section, { unit, things, more }) {
    Object.assign(this, { unit, things, more });
    this.sum = make("p", { class: "sum" });
    this.columns = make("ol", { class: "columns-of", role: "img" });
    section.append(this.sum, this.columns);
  }

  show(distribution, live) {
    const { bounds, counts, sum } = distribution;
    const all = counts.reduce((total, count) => total + count, 0);
    const most = Math.max(...counts, 1);
    const upTo = (share) => {
      let seen = 0;
      const place = counts.findIndex((count) => (seen += count) >= share * all);
      return place >= bounds.length ? `over ${this.#bound(bounds.at(-1))}` : `at most ${this.#bound(bounds[place])}`;
    };
    const more = this.more?.(live);
    setText(this.sum, (all === 0 ? `no ${this.things} yet` : `${format.count(all)} ${this.things} since the start: half ${upTo(0.5)}, nine of ten ${upTo(0.9)}, mean ${this.#mean(sum / all)}`) + (more ? `; ${more}` : ""));
    setAttribute(this.columns, "aria-label", this.sum.textContent);
    // Empty buckets at the end say nothing but that they are empty: one of them is enough, and six make a shape.
    const shown = Math.max(6, counts.findLastIndex((count) => count > 0) + 2);
    const buckets = counts.slice(0, shown).map((count, place) => ({ count, label: place < bounds.length ? this.#bound(bounds[place]) : "more" }));
    this.columns.hidden = all === 0;
    keyed(this.columns, all === 0 ? [] : buckets, (_, place) => place, () => make("li", {}, make("span", { class: "stem" }, make("i")), make("small")), (column, bucket) => {
      column.firstChild.firstChild.style.height = `${(100 * bucket.count) / most}%`;
      column.classList.toggle("none", bucket.count === 0);
      setText(column.lastChild, bucket.label.replace("\u00a0", "\u200a"));
      setAttribute(column, "title", `${bucket.label === "more" ? `over ${this.#bound(bounds.at(-1))}` : `up to ${bucket.label}`}: ${format.count(bucket.count)}, ${format.share(bucket.count / all)}`);
    });
  }

  #bound(value) {
    return format.bound(value, this.unit);
  }

  #mean(value) {
    return this.unit === "seconds" ? format.seconds(value) : format.count(value);
  }
}

/** Alarms that fire or are about to, above everything else. A change is spoken; the passing of time is not. */
export class Firing {
  constructor(box, news) {
    this.box = box;
    this.news = news;
    this.spoken = new Set();
  }

  show(live) {
    const loud = live.alarms.filter((alarm) => alarm.state !== "quiet");
    keyed(this.box, loud, alarmKey, () => make("section", { class: "alarm" }, make("b", { "aria-hidden": "true" }), make("h2"), make("p"), make("p", { class: "advice" }), make("small")), (card, alarm) => {
      const firing = alarm.state === "firing";
      setAttribute(card, "data-alarm", alarm.name);
      setAttribute(card, "data-state", alarm.state);
      setText(card.children[0], firing ? "!" : "…");
      setText(card.children[1], `${format.words(alarm.name)}${alarm.subject ? `: ${alarm.subject}` : ""}`);
      setText(card.children[2], `${capital(alarm.sentence)}.`);
      setProse(card.children[3], `${capital(alarm.advice)}.`);
      setText(card.children[4], `${firing ? "fires" : "the condition holds"} for ${format.age(live.at_seconds - alarm.since_seconds)}`);
    });
    this.#speak(loud.filter((alarm) => alarm.state === "firing"));
  }

  #speak(firing) {
    const now = new Set(firing.map(alarmKey));
    const begun = firing.filter((alarm) => !this.spoken.has(alarmKey(alarm)));
    const gone = [...this.spoken].filter((name) => !now.has(name));
    if (begun.length > 0) setText(this.news, begun.map((alarm) => `Alarm: ${format.words(alarm.name)} ${alarm.subject}. ${alarm.sentence}.`).join(" "));
    else if (gone.length > 0) setText(this.news, gone.map((name) => `No alarm any more: ${format.words(name)}.`).join(" "));
    this.spoken = now;
  }
}

export const alarmKey = (alarm) => `${alarm.name} ${alarm.subject}`;

const capital = (text) => (text.charAt(0).toUpperCase() + text.slice(1)).replace(/\.$/, "");

/** What to do with a server that has seen no handshake: lines to paste. */
export class Empty {
  constructor(section) {
    this.section = section;
    this.lines = make("ul", { class: "try" });
    section.append(make("h2", { id: "empty-title", text: "No handshake yet" }),
      make("p", { text: "Everything below is ready and empty. Send something, and it moves within a second:" }), this.lines);
  }

  show(live, quiet) {
    const handshakes = live.mixes.kinds.reduce((sum, kind) => sum + kind.total, 0);
    this.section.hidden = handshakes > 0 || !quiet;
    if (this.section.hidden) return;
    const to = live.listeners.length > 0 ? reachable(live.listeners[0].listener) : `${location.hostname}:443`;
    const tries = [`curl -k https://${to}/`, `tollgate load tps ${to} --insecure --rate 100 --hit-rate 0.9 --duration 30s`];
    keyed(this.lines, tries, (text) => text, (text) => make("li", {}, make("code", { text }), make("button", {
      type: "button", text: "copy", "aria-label": `Copy: ${text}`, onclick: (event) => copy(event.currentTarget, text),
    })), () => {});
  }
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(button.previousSibling);
    button.textContent = "selected";
  }
  setTimeout(() => (button.textContent = "copy"), 1500);
}

/** An address that one can connect to: that of this page in place of "any". */
function reachable(listener) {
  const host = location.hostname || "localhost";
  return listener.replace(/^(0\.0\.0\.0|\[::\]|127\.0\.0\.1|\[::1\])(?=:\d+$)/, (address) => (address.includes("1") ? "localhost" : host));
}
