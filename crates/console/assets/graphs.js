// A graph over time: lines or a stack, marks for events, a cursor that all graphs share.
//
// uPlot draws; this decides what. Colour is never the only sign: a line has its own dashes, an area its own hatching,
// and the legend beside the graph shows both next to the name.

import { make, setAttribute, setText } from "./elements.js";
import { clock, day } from "./format.js";

const uPlot = globalThis.uPlot;

/** All graphs of the page: they share one cursor and one span of time. */
const graphs = new Set();
const probe = make("span", { hidden: true });

/** A colour of the style sheet as the canvas wants it, in the theme that is on. */
const colours = new Map();
export function colour(name) {
  if (!colours.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

/** After a change of the theme: every colour is looked up anew and every graph drawn again. */
export function recolour() {
  colours.clear();
  patterns.clear();
  for (const graph of graphs) graph.redraw();
}

/** Hatchings by name; each draws one tile of 8 by 8. */
const HATCHES = {
  solid: () => {},
  rising: (pen) => strokes(pen, [[-2, 2, 2, -2], [-2, 10, 10, -2], [6, 10, 10, 6]]),
  falling: (pen) => strokes(pen, [[-2, 6, 2, 10], [-2, -2, 10, 10], [6, -2, 10, 2]]),
  dots: (pen) => [[2, 2], [6, 6]].forEach(([x, y]) => pen.fillRect(x - 0.75, y - 0.75, 1.5, 1.5)),
  level: (pen) => strokes(pen, [[0, 2, 8, 2], [0, 6, 8, 6]]),
  upright: (pen) => strokes(pen, [[2, 0, 2, 8], [6, 0, 6, 8]]),
  grid: (pen) => strokes(pen, [[0, 4, 8, 4], [4, 0, 4, 8]]),
};

function strokes(pen, lines) {
  pen.beginPath();
  for (const [fromX, fromY, toX, toY] of lines) {
    pen.moveTo(fromX, fromY);
    pen.lineTo(toX, toY);
  }
  pen.stroke();
}

/** A hatching in a colour, as something to fill with. */
const patterns = new Map();
function pattern(name, hatch) {
  const scale = devicePixelRatio || 1;
  const key = `${name} ${hatch} ${scale}`;
  if (!patterns.has(key)) {
    const tile = make("canvas");
    tile.width = tile.height = Math.round(8 * scale);
    const pen = tile.getContext("2d");
    pen.scale(tile.width / 8, tile.height / 8);
    pen.fillStyle = pen.strokeStyle = colour(name);
    pen.globalAlpha = 0.3;
    pen.fillRect(0, 0, 8, 8);
    pen.globalAlpha = 0.6;
    pen.lineWidth = 1;
    HATCHES[hatch](pen);
    patterns.set(key, pen.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}

/** What stands for a series in a legend: its line with its dashes, or its hatching. */
export function swatch() {
  return make("canvas", { class: "swatch", width: 36, height: 20, "aria-hidden": "true" });
}

export function paintSwatch(canvas, series) {
  const key = `${colour(series.colour)} ${series.hatch} ${series.dash}`;
  if (canvas.dataset.painted === key) return;
  canvas.dataset.painted = key;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, 36, 20);
  pen.strokeStyle = pen.fillStyle = colour(series.colour);
  if (series.hatch) {
    pen.save();
    pen.scale(2, 2);
    pen.globalAlpha = 0.3;
    pen.fillRect(0, 0, 18, 10);
    pen.globalAlpha = 0.75;
    for (const x of [0, 8, 16]) {
      for (const y of [0, 8]) {
        pen.save();
        pen.translate(x, y);
        HATCHES[series.hatch](pen);
        pen.restore();
      }
    }
    pen.restore();
    pen.lineWidth = 4;
    pen.strokeRect(0, 0, 36, 20);
  } else {
    pen.lineWidth = 4;
    pen.setLineDash((series.dash ?? []).map((length) => length * 2));
    pen.beginPath();
    pen.moveTo(0, 10);
    pen.lineTo(36, 10);
    pen.stroke();
  }
}

/** Ticks of the time axis, at least this far apart in CSS pixels. */
const TICK_SPACE = 72;

export class Graph {
  /**
   * `label`: what the graph shows, for those who do not see it. `stacked`: areas upon each other. `top(highest)`: end
   * of the scale. `format(value)`: a tick. `say(place)`: the values at a point in words. `time`: whether times stand
   * below it.
   */
  constructor({ label, height, stacked = false, top, format, say, time = true, onpoint }) {
    Object.assign(this, { height, stacked, top, format, say, time, onpoint, key: "", plot: null, shown: null, place: null, at: null });
    this.canvas = make("div", { class: "canvas" });
    this.box = make("div", {
      class: "graph", tabindex: 0, role: "slider", "aria-roledescription": "graph", "aria-label": `${label}; arrow keys read values`,
      "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-valuetext": "now",
      onkeydown: (event) => this.#onkey(event), onblur: () => this.#leave(),
    }, this.canvas);
    this.box.style.minHeight = `${height}px`;
    new ResizeObserver(() => this.#resize()).observe(this.box);
    graphs.add(this);
  }

  /**
   * Draws. `times` are seconds; `series` are `{ name, colour, hatch | dash, values }` bottom first; `from` and `to` are
   * the ends of the time axis; `lines` are `{ value, label, colour }` across it; `marks` as in `/history.json`.
   */
  show(shown) {
    this.shown = shown;
    const key = JSON.stringify(shown.series.map((one) => [one.name, one.colour, one.hatch, one.dash]));
    if (!this.plot || key !== this.key) this.#build(key);
    if (!this.plot) return;
    const values = this.stacked ? stack(shown.series) : shown.series.map((one) => one.values);
    this.plot.batch(() => {
      this.plot.setData([shown.times, ...values], false);
      this.plot.setScale("x", { min: shown.from, max: shown.to });
    });
    if (this.at !== null) this.#point(this.at);
    setAttribute(this.box, "aria-valuemax", Math.max(0, shown.times.length - 1));
  }

  redraw() {
    if (this.shown) this.#build(this.key);
    if (this.shown) this.show(this.shown);
  }

  #build(key) {
    const width = this.box.clientWidth;
    if (width === 0) return;
    this.plot?.destroy();
    this.key = key;
    this.plot = new uPlot(this.#options(width), [[0], ...this.shown.series.map(() => [null])], this.canvas);
    this.plot.over.addEventListener("pointermove", () => (this.at = null));
    this.marks = make("div", { class: "marks" });
    this.plot.over.append(this.marks);
  }

  #options(width) {
    const grid = { stroke: () => colour("--grid"), width: 1 };
    const axis = { stroke: () => colour("--quiet"), font: `11px ${getComputedStyle(document.body).fontFamily}`, ticks: { show: false } };
    return {
      width, height: this.height, legend: { show: false }, padding: [8, 4, this.time ? 0 : 6, 0],
      cursor: { sync: { key: "tollgate", setSeries: false }, drag: { x: false, y: false }, y: false, points: { size: 6, width: 1.5 } },
      scales: {
        x: { time: false, auto: false },
        y: { range: (_, __, highest) => [0, this.top(Math.max(highest ?? 0, this.#highestLine()))] },
      },
      axes: [
        { ...axis, grid, show: this.time, size: 22, gap: 6, space: TICK_SPACE, splits: (plot, _, min, max) => timeTicks(min, max, plot.width / TICK_SPACE), values: (plot, ticks) => ticks.map((at) => timeLabel(at, ticks, plot)) },
        { ...axis, grid, size: 46, gap: 6, space: 26, values: (_, ticks) => ticks.map((value) => this.format(value)) },
      ],
      series: [{}, ...this.shown.series.map((one, place) => this.#series(one, place))],
      bands: this.stacked ? this.shown.series.slice(1).map((one, place) => ({ series: [place + 2, place + 1], fill: () => pattern(one.colour, one.hatch) })) : [],
      hooks: { setCursor: [(plot) => this.#onpoint(plot)], draw: [(plot) => this.#drawn(plot)] },
    };
  }

  #series(one, place) {
    const wash = one.wash ? { fill: () => pattern(one.colour, "solid") } : {};
    return {
      label: one.name, stroke: () => colour(one.colour), width: this.stacked ? 1 : 1.75, dash: one.dash,
      points: { show: false, size: 4, width: 0, fill: () => colour(one.colour), filter: (plot, index) => alone(plot.data[index]) },
      ...(this.stacked && place === 0 ? { fill: () => pattern(one.colour, one.hatch) } : wash),
    };
  }

  #highestLine() {
    return Math.max(0, ...(this.shown.lines ?? []).map((line) => (line.stretches ? line.value : 0)));
  }

  #drawn(plot) {
    this.#drawLines(plot);
    this.#placeMarks();
  }

  /** Values that hold for the whole graph, such as the cores that there are. */
  #drawLines(plot) {
    const pen = plot.ctx;
    const scale = devicePixelRatio || 1;
    for (const line of this.shown.lines ?? []) {
      if (line.value > plot.scales.y.max) continue;
      const y = Math.round(plot.valToPos(line.value, "y", true));
      pen.save();
      pen.strokeStyle = pen.fillStyle = colour(line.colour);
      pen.lineWidth = scale;
      pen.setLineDash([2 * scale, 3 * scale]);
      pen.beginPath();
      pen.moveTo(plot.bbox.left, y);
      pen.lineTo(plot.bbox.left + plot.bbox.width, y);
      pen.stroke();
      this.#label(pen, line.label, plot.bbox.left + 6 * scale, y, y - plot.bbox.top < 18 * scale ? 10 * scale : -10 * scale, scale);
      pen.restore();
    }
  }

  /** Text beside a line, on ground of its own so that it can be read over anything. */
  #label(pen, text, left, y, away, scale) {
    pen.font = `${11 * scale}px ${getComputedStyle(document.body).fontFamily}`;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    const ink = pen.fillStyle;
    pen.globalAlpha = 0.82;
    pen.fillStyle = colour("--card");
    pen.fillRect(left - 3 * scale, y + away - 7 * scale, pen.measureText(text).width + 6 * scale, 14 * scale);
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    pen.fillText(text, left, y + away);
  }

  /** Events as elements, so that they can be pointed at and read; those that would overlap become one. */
  #placeMarks() {
    if (!this.plot || !this.marks) return;
    const { from, to, marks = [] } = this.shown;
    const places = [];
    for (const mark of marks) {
      if (mark.at_seconds < from || mark.at_seconds > to) continue;
      const left = Math.round(this.plot.valToPos(mark.at_seconds, "x"));
      const text = `${clock(mark.at_seconds)} ${MARKS[mark.kind]?.word ?? mark.kind}: ${mark.text}`;
      const last = places.at(-1);
      if (last && left - last.left < 14) {
        last.text += `\n${text}`;
        if (mark.kind === "alarm") last.kind = "alarm";
      } else places.push({ left, kind: mark.kind, text });
    }
    while (this.marks.children.length > places.length) this.marks.lastChild.remove();
    while (this.marks.children.length < places.length) this.marks.append(make("span", { class: "mark" }, make("b"), make("span", { class: "says" })));
    places.forEach((place, index) => {
      const mark = this.marks.children[index];
      setAttribute(mark, "data-kind", place.kind);
      setText(mark.firstChild, MARKS[place.kind]?.sign ?? "•");
      setText(mark.lastChild, place.text);
      mark.classList.toggle("late", place.left > this.plot.over.clientWidth / 2);
      mark.style.transform = `translateX(${place.left}px)`;
    });
  }

  #onpoint(plot) {
    const place = plot.cursor.left >= 0 && plot.cursor.idx !== null && plot.cursor.idx !== undefined ? plot.cursor.idx : null;
    this.place = place;
    setAttribute(this.box, "aria-valuenow", place ?? Math.max(0, this.shown.times.length - 1));
    setAttribute(this.box, "aria-valuetext", place === null ? "now" : `${clock(this.shown.times[place])}: ${this.say(place)}`);
    this.onpoint(place);
  }

  #onkey(event) {
    const last = this.shown ? this.shown.times.length - 1 : -1;
    if (last < 0 || !this.plot) return;
    const stride = event.shiftKey ? 10 : 1;
    const from = this.place ?? last + 1;
    const to = { ArrowLeft: from - stride, ArrowRight: from + stride, Home: this.plot.valToIdx(this.shown.from), End: last }[event.key];
    if (event.key === "Escape") this.#leave();
    if (to === undefined) return;
    event.preventDefault();
    const place = Math.min(last, Math.max(0, to));
    this.#point(this.shown.times[place]);
  }

  /** Puts the cursor of all graphs on a point in time, and keeps it there while time goes by. */
  #point(at) {
    this.at = at >= this.shown.from ? at : null;
    if (this.at === null) this.#leave();
    else this.plot.setCursor({ left: this.plot.valToPos(at, "x"), top: 10 }, true, true);
  }

  /** Takes the cursor away, from all graphs. */
  #leave() {
    this.at = null;
    this.plot?.setCursor({ left: -10, top: -10 }, true, true);
  }

  #resize() {
    const width = this.box.clientWidth;
    if (width === 0 || !this.shown) return;
    if (!this.plot) this.redraw();
    else if (width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }
}

/** Signs of events. */
export const MARKS = {
  start: { sign: "▸", word: "started" },
  reload: { sign: "↻", word: "reloaded" },
  alarm: { sign: "!", word: "alarm" },
};

/** Each series upon those below it; a point that one of them does not know is unknown. */
function stack(series) {
  const sums = [];
  let below = null;
  for (const one of series) {
    below = one.values.map((value, place) => (value === null || value === undefined || (below && below[place] === null) ? null : value + (below ? below[place] : 0)));
    sums.push(below);
  }
  return sums;
}

/** Places of values with nothing known on either side, which a line would not show. */
function alone(values) {
  const places = [];
  values.forEach((value, place) => {
    if (value !== null && value !== undefined && (values[place - 1] ?? null) === null && (values[place + 1] ?? null) === null) places.push(place);
  });
  return places.length > 0 ? places : null;
}

/** Steps that a clock face has, in seconds. */
const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Round times between `min` and `max`, at most about `most` of them. */
function timeTicks(min, max, most) {
  const step = CLOCK_STEPS.find((length) => (max - min) / length <= most) ?? 86400;
  const offset = new Date(max * 1000).getTimezoneOffset() * 60;
  const ticks = [];
  for (let at = Math.ceil((min - offset) / step) * step + offset; at <= max; at += step) ticks.push(at);
  return ticks;
}

function timeLabel(at, ticks, plot) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
  const room = plot.scales.x.max - ((step < 60 ? 25 : 16) * (plot.scales.x.max - plot.scales.x.min)) / plot.over.clientWidth;
  // A label at the very end would be cut off.
  if (at > room) return "";
  if (step >= 3600 && clock(at, false) === "00:00") return day(at).slice(5);
  return clock(at, step < 60);
}
