// The four panels that come first: fresh handshakes, resumption, CPU by phase, what was negotiated.
//
// Each shows the last second or minute, and while the cursor is on any graph the values at that point in time.

import { Choice, keyed, make, setAttribute, setText } from "./elements.js";
import * as format from "./format.js";
import { Graph, paintSwatch, swatch } from "./graphs.js";

/** The phases of CPU, bottom of the stack first: what cannot be saved lies above what can. */
export const PHASES = [
  { key: "asymmetric", name: "asymmetric", colour: "--phase-1", hatch: "rising" },
  { key: "derivation", name: "derivation", colour: "--phase-2", hatch: "dots" },
  { key: "records", name: "records", colour: "--phase-3", hatch: "level" },
  { key: "not_tls", name: "not TLS", colour: "--phase-0", hatch: "solid" },
];

/** Looks for names that are not known beforehand, the most frequent first. */
const LOOKS = [
  { colour: "--mix-1", hatch: "solid" },
  { colour: "--mix-2", hatch: "rising" },
  { colour: "--mix-3", hatch: "dots" },
  { colour: "--mix-4", hatch: "level" },
  { colour: "--mix-5", hatch: "falling" },
  { colour: "--mix-6", hatch: "upright" },
];
const OTHERS = { name: "others", colour: "--phase-0", hatch: "grid" };

/** Figures beside each other: a sign, a name, a value, and a line of small print. */
class Figures {
  constructor() {
    this.box = make("dl", { class: "figures" });
  }

  /** `list`: `{ name, value, small, look, main, figure }`. */
  show(list) {
    keyed(this.box, list, (one) => one.name, (one) => {
      const sign = one.look ? swatch() : "";
      return make("div", { class: one.main ? "main" : null }, make("dt", {}, sign, make("span", { text: one.label ?? one.name })),
        make("dd", { "data-figure": one.figure }), make("dd", { class: "small" }));
    }, (box, one) => {
      if (one.look) paintSwatch(box.querySelector("canvas"), one.look);
      setText(box.children[1], one.value);
      setText(box.children[2], one.small ?? "");
    });
  }
}

/** Puts the title of a panel into a line with a choice, and says there of which moment the values are. */
function stamp(section, choice) {
  const text = make("span", { class: "stamp" });
  const title = section.querySelector("h2");
  const line = make("div", { class: "head-line" });
  title.replaceWith(line);
  line.append(title, text, ...(choice ? [choice.box] : []));
  return (point, otherwise) => {
    setText(text, point ? `at ${format.clock(point.at)}` : otherwise);
    text.classList.toggle("held", Boolean(point));
  };
}

/** The top of a scale from 0: a little over the highest value, at least `least`. */
const roomy = (least) => (highest) => Math.max(least, highest * 1.12);

const perSecond = (value) => (value === null || value === undefined ? format.UNKNOWN : `${format.rate(value)} /s`);

/** Columns of all points. */
const column = (points, name) => points.map((point) => point[name] ?? null);

/** Shares of what a named column holds at a point, with what is not in `names` as "others". */
function portions(point, name, names) {
  const values = point?.[name];
  if (!values) return null;
  const whole = Object.values(values).reduce((sum, value) => sum + value, 0);
  const listed = names.map((one) => values[one] ?? 0);
  const others = Math.max(0, whole - listed.reduce((sum, value) => sum + value, 0));
  return { whole, listed, others };
}

/** Everything that the graphs of a panel share: time, marks, and showing itself again when the cursor moves. */
class Panel {
  constructor(section, choice = null) {
    this.section = section;
    this.point = null;
    this.stamp = stamp(section, choice);
    this.figures = new Figures();
  }

  graph(options) {
    return new Graph({ ...options, onpoint: (place) => this.#onpoint(place) });
  }

  #onpoint(place) {
    const point = place === null ? null : this.seen?.points[place] ?? null;
    const shown = point && !point.gap ? point : null;
    if (shown === this.point) return;
    this.point = shown;
    if (this.seen?.live) this.say(this.seen);
  }

  /** `seen`: `{ live, history, points, times, from, to, marks }`. */
  show(seen) {
    this.seen = seen;
    this.draw(seen, { times: seen.times, from: seen.from, to: seen.to, marks: seen.marks });
    if (seen.live) this.say(seen);
  }
}

class RatePanel extends Panel {
  constructor(section) {
    super(section);
    const say = (place) => `${perSecond(this.seen.points[place].full_per_second)} full, ${perSecond(this.seen.points[place].resumed_per_second)} resumed`;
    this.full = this.graph({ label: "Full handshakes per second", height: 128, top: roomy(1), format: format.tick, say, time: false });
    this.resumed = this.graph({ label: "Resumed handshakes per second", height: 98, top: roomy(1), format: format.tick, say });
    section.append(this.figures.box, this.full.box, make("p", { class: "caption", text: "resumed, on a scale of its own" }), this.resumed.box);
  }

  draw({ points }, common) {
    this.full.show({ ...common, series: [{ ...RatePanel.FULL, values: column(points, "full_per_second") }] });
    this.resumed.show({ ...common, series: [{ ...RatePanel.RESUMED, values: column(points, "resumed_per_second") }] });
  }

  say({ live }) {
    const { second, minute, instance } = live;
    const at = this.point;
    this.stamp(at, "last second");
    const small = (value) => (at ? "" : `last minute ${perSecond(value)}`);
    this.figures.show([
      { name: "full", value: perSecond(at ? at.full_per_second : second.full_per_second), small: small(minute.full_per_second), look: RatePanel.FULL, main: true, figure: "full_per_second" },
      { name: "resumed", value: perSecond(at ? at.resumed_per_second : second.resumed_per_second), small: small(minute.resumed_per_second), look: RatePanel.RESUMED, figure: "resumed_per_second" },
      { name: "full per core", value: perSecond((at ? at.full_per_second : second.full_per_second) / instance.cores), small: at ? "" : `of ${format.count(instance.cores)}` },
      { name: "not completed", value: at ? format.UNKNOWN : perSecond(second.failed_per_second), small: small(minute.failed_per_second), figure: "failed_per_second" },
    ]);
  }

  static FULL = { name: "full", colour: "--full", wash: true };
  static RESUMED = { name: "resumed", colour: "--resumed", dash: [5, 3] };
}

class HitPanel extends Panel {
  constructor(section) {
    super(section);
    this.hits = this.graph({
      label: "Part of the handshakes that resumed", height: 112, top: () => 1, format: (value) => `${Math.round(value * 100)}%`, time: false,
      say: (place) => `${format.share(this.seen.points[place].hit_rate)} resumed`,
    });
    this.misses = this.graph({
      label: "Misses per second by reason", height: 92, stacked: true, top: roomy(1), format: format.tick,
      say: (place) => this.names.map((name) => `${format.words(name)} ${perSecond(this.seen.points[place].misses?.[name])}`).join(", "),
    });
    this.legend = make("ul", { class: "legend" });
    this.names = [];
    section.append(this.figures.box, this.hits.box, this.legend, this.misses.box);
  }

  draw({ points, history, live }, common) {
    this.hits.show({ ...common, series: [{ ...HitPanel.HITS, values: column(points, "hit_rate") }], lines: this.#threshold(live) });
    this.names = steady(this.names, history.names("misses", LOOKS.length));
    const series = this.names.map((name, place) => ({ name, ...LOOKS[place], values: points.map((point) => (point.misses ? point.misses[name] ?? 0 : null)) }));
    this.misses.show({ ...common, series });
  }

  /** The alarm's threshold, as a line. */
  #threshold(live) {
    const alarm = live?.alarms.find((one) => one.name === "hit_rate_low");
    return alarm ? [{ value: alarm.threshold, label: `alarm under ${format.share(alarm.threshold)}`, colour: "--bad" }] : [];
  }

  say({ live }) {
    const at = this.point;
    this.stamp(at, "last minute");
    const { minute } = live;
    this.figures.show([
      { name: "hit rate", value: format.share(at ? at.hit_rate : minute.hit_rate), small: at ? "" : `last second ${format.share(live.second.hit_rate)}`, look: HitPanel.HITS, main: true, figure: "hit_rate" },
      { name: "misses", value: perSecond(at ? at.full_per_second : minute.full_per_second), small: "full handshakes", figure: "misses_per_second" },
      { name: "hits", value: perSecond(at ? at.resumed_per_second : minute.resumed_per_second), small: at ? "" : methods(live), figure: "hits_per_second" },
      { name: "saves", value: live.price.saved_cores === null ? format.UNKNOWN : `${format.cores(live.price.saved_cores)} cores`, small: live.price.micros_per_miss === null ? "" : `a miss costs ${format.micros(live.price.micros_per_miss)} more`, figure: "saved_cores" },
    ]);
    const missed = new Map(live.misses.map((portion) => [portion.name, portion]));
    const list = at ? this.names.map((name) => ({ name, per_second: at.misses?.[name] })) : [...this.names.map((name) => missed.get(name) ?? { name, per_second: 0 }), ...live.misses.filter((one) => !this.names.includes(one.name) && one.per_second > 0)];
    const whole = list.reduce((sum, one) => sum + (one.per_second ?? 0), 0);
    legend(this.legend, list.map((one) => ({
      name: format.words(one.name), look: LOOKS[this.names.indexOf(one.name)], value: perSecond(one.per_second),
      share: whole > 0 ? one.per_second / whole : null, title: one.total === undefined ? null : `${format.count(one.total)} since the start`,
    })), "no misses");
  }

  static HITS = { name: "hit rate", colour: "--resumed", wash: true };
}

class CpuPanel extends Panel {
  constructor(section) {
    const scale = new Choice("Scale of the graph", [
      { value: "fit", label: "fit", title: "The scale ends a little above what was used" },
      { value: "all", label: "all cores", title: "The scale ends at the cores that there are" },
    ], "fit", () => this.show(this.seen));
    super(section, scale);
    this.scale = scale;
    this.graphed = this.graph({
      label: "Cores used, by phase", height: 212, stacked: true, format: format.tick,
      top: (highest) => (this.scale.value === "all" ? Math.max(this.seen.live?.instance.cores ?? 1, highest) * 1.06 : Math.max(0.01, highest * 1.15)),
      say: (place) => PHASES.map((phase) => `${phase.name} ${format.cores(this.seen.points[place][`${phase.key}_cores`])}`).join(", "),
    });
    this.whole = make("div", { class: "whole", role: "img" }, ...PHASES.map((phase) => make("i", { "data-phase": phase.key })));
    section.append(this.figures.box, this.whole, this.graphed.box);
  }

  draw({ points, live }, common) {
    const cores = live?.instance.cores;
    const zero = live?.price.cores_at_zero;
    const lines = [];
    if (cores) lines.push({ value: cores, label: `${format.count(cores)} cores there are`, colour: "--text" });
    if (zero) lines.push({ value: zero, label: `${format.cores(zero)} if nothing resumed`, colour: "--quiet", stretches: true });
    if (live && !live.instance.ledger) {
      this.graphed.show({ ...common, lines, series: [{ ...CpuPanel.UNDIVIDED, values: column(points, "worker_cores") }] });
      return;
    }
    this.graphed.show({ ...common, lines, series: PHASES.map((phase) => ({ ...phase, values: column(points, `${phase.key}_cores`) })) });
  }

  say({ live }) {
    const at = this.point;
    this.stamp(at, "last second");
    const all = live.instance.cores;
    if (!live.instance.ledger) {
      const whole = at ? at.worker_cores : live.second.cores.workers;
      this.figures.show([{ name: "used", value: `${format.cores(whole)} of ${format.count(all)} cores`, small: "the ledger is off: not divided into phases", main: true, figure: "cores" }]);
      this.whole.lastChild.style.width = `${(100 * whole) / Math.max(all, whole)}%`;
      return;
    }
    const of = (phase, rates) => (at ? at[`${phase.key}_cores`] : rates.cores[phase.key]);
    const used = PHASES.reduce((sum, phase) => sum + of(phase, live.second), 0);
    this.figures.show([
      { name: "used", value: `${format.cores(used)} of ${format.count(all)} cores`, small: at ? "" : `TLS ${format.share(live.minute.tls_share)} of all, last minute`, main: true, figure: "cores" },
      ...PHASES.map((phase) => ({ name: phase.name, value: format.cores(of(phase, live.second)), small: at ? "" : `minute ${format.cores(live.minute.cores[phase.key])}`, look: phase, figure: `${phase.key}_cores` })),
    ]);
    PHASES.forEach((phase, place) => (this.whole.children[place].style.width = `${(100 * of(phase, live.second)) / Math.max(all, used)}%`));
    setAttribute(this.whole, "aria-label", `${format.cores(used)} of ${format.count(all)} cores are used`);
  }
}

/** What is drawn where the ledger of CPU time is off: what the kernel counts. */
CpuPanel.UNDIVIDED = { name: "workers", colour: "--phase-0", hatch: "solid" };

/** What the last panel can show: a column of the history, and where the live numbers of it are. */
const MIXES = [
  { value: "suites", label: "suite", title: "Cipher suites" },
  { value: "versions", label: "version", title: "Versions of TLS" },
  { value: "groups", label: "group", title: "Named groups of the key exchange" },
  { value: "certificates", label: "certificate", title: "Kinds of certificate, of full handshakes" },
  { value: "signatures", label: "signature", title: "Schemes of the server's signature, of full handshakes" },
];
/** What only a full handshake has. */
const OF_FULL = ["certificates", "signatures"];

class MixPanel extends Panel {
  constructor(section) {
    const choice = new Choice("What to show", MIXES, "suites", () => {
      this.names = [];
      this.show(this.seen);
    });
    super(section, choice);
    this.names = [];
    this.choice = choice;
    this.graphed = this.graph({
      label: "Part of the handshakes", height: 190, stacked: true, top: () => 1, format: (value) => `${Math.round(value * 100)}%`,
      say: (place) => this.names.map((name) => `${name} ${format.share(this.#shares(this.seen.points[place], name))}`).join(", "),
    });
    this.legend = make("ul", { class: "legend rows" });
    section.append(this.legend, this.graphed.box);
  }

  #shares(point, name) {
    const all = portions(point, this.choice.value, [name]);
    return all && all.whole > 0 ? all.listed[0] / all.whole : null;
  }

  draw({ points, history }, common) {
    this.names = steady(this.names, history.names(this.choice.value, LOOKS.length));
    const parts = points.map((point) => portions(point, this.choice.value, this.names));
    const share = (part, value) => (part && part.whole > 0 ? value / part.whole : null);
    const series = this.names.map((name, place) => ({ name, ...LOOKS[place], values: parts.map((part) => share(part, part?.listed[place])) }));
    if (parts.some((part) => part && part.whole > 0 && part.others / part.whole > 0.0005)) series.push({ ...OTHERS, values: parts.map((part) => share(part, part?.others)) });
    this.graphed.show({ ...common, series });
  }

  say({ live }) {
    const at = this.point;
    this.stamp(at, OF_FULL.includes(this.choice.value) ? "last minute, full handshakes" : "last minute, all handshakes");
    const now = new Map(live.mixes[this.choice.value].map((portion) => [portion.name, portion]));
    const names = [...this.names, ...[...now.keys()].filter((name) => !this.names.includes(name))].slice(0, 8);
    legend(this.legend, names.map((name) => {
      const portion = now.get(name);
      const perSecondNow = at ? at[this.choice.value]?.[name] ?? 0 : portion?.per_second ?? 0;
      const known = at ? {} : portion ?? {};
      const costs = [
        typeof known.hit_rate === "number" ? `${format.share(known.hit_rate)} resumed` : null,
        typeof known.cores === "number" ? `${format.cores(known.cores)} cores` : null,
      ].filter(Boolean).join(", ");
      return {
        name, look: LOOKS[this.names.indexOf(name)], share: at ? this.#shares(at, name) : portion?.share ?? 0, value: perSecond(perSecondNow), costs,
        title: portion ? `${format.count(portion.total)} since the start` : null,
      };
    }), "nothing yet");
  }
}

/** How resumed handshakes found their state, in a few words. */
function methods(live) {
  const found = live.mixes.methods.filter((one) => one.share > 0);
  if (found.length === 1) return `all by ${format.words(found[0].name)}`;
  return found.map((one) => `${format.share(one.share)} ${format.words(one.name)}`).join(", ");
}

/** Keeps the order and the looks of names that stay; new ones come behind. */
function steady(before, now) {
  const kept = before.filter((name) => now.includes(name));
  return [...kept, ...now.filter((name) => !kept.includes(name))];
}

/** A legend: sign, name, share, rate; and what it costs where that is known. */
function legend(list, items, otherwise) {
  keyed(list, items.length > 0 ? items : [{ name: otherwise, none: true }], (one) => one.name, (one) => {
    if (one.none) return make("li", { class: "none", text: one.name });
    return make("li", {}, swatch(), make("span", { class: "what", text: one.name }), make("span", { class: "costs" }), make("span", { class: "share" }), make("span", { class: "rate" }));
  }, (line, one) => {
    if (one.none) return;
    paintSwatch(line.children[0], one.look ?? OTHERS);
    setText(line.children[2], one.costs ?? "");
    setText(line.children[3], format.share(one.share));
    setText(line.children[4], one.value);
    setAttribute(line, "title", one.title ?? null);
    line.setAttribute("data-name", one.name);
  });
}

/** Makes the four panels in their sections. */
export function panels(byId) {
  const all = { rate: new RatePanel(byId("rate")), hits: new HitPanel(byId("hits")), cpu: new CpuPanel(byId("cpu")), mix: new MixPanel(byId("mix")) };
  return {
    show: (seen) => Object.values(all).forEach((panel) => panel.show(seen)),
    nextMix: () => all.mix.choice.next(),
    nextScale: () => all.cpu.scale.next(),
  };
}

