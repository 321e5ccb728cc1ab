// The page: puts the parts together, keeps what the reader chose, and listens to the keyboard.
//
// Order of things: an event arrives (connection.js), the history takes it in (history.js), every part shows it.

import { Connection, past } from "./connection.js";
import { Choice, make, setAttribute, setText } from "./elements.js";
import * as format from "./format.js";
import { recolour } from "./graphs.js";
import { History } from "./history.js";
import { panels } from "./panels.js";
import { Price } from "./price.js";
import { DominantLine, Empty, Firing, Histogram, Phases } from "./sections.js";
import { tables } from "./tables.js";

const byId = (id) => document.getElementById(id);

/** What the reader chose, kept over visits where the browser allows it. */
const kept = {
  get(name, otherwise) {
    try {
      return localStorage.getItem(`tollgate.${name}`) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`tollgate.${name}`);
      else localStorage.setItem(`tollgate.${name}`, value);
    } catch {
      // Not kept, then.
    }
  },
};

const RANGES = [
  { value: 60, label: "1 min", title: "The last minute (1)" },
  { value: 600, label: "10 min", title: "The last ten minutes (2)" },
  { value: 7200, label: "2 h", title: "The last two hours (3)" },
  { value: 86400, label: "24 h", title: "The last day (4)" },
];

const chosen = Number(kept.get("range", 0));
const range = new Choice("Time range of all graphs", RANGES, RANGES.some((one) => one.value === chosen) ? chosen : 600, (seconds) => {
  if (!young) kept.set("range", seconds);
  young = false;
  load();
});
/** Set while the page itself chooses the range. */
let young = false;

/** A server that has just been started has a minute to show: ten would be empty. Whoever chose a range has it. */
function fitRange() {
  young = chosen === 0 && live.at_seconds - live.instance.started_seconds < 120;
  if (young) range.choose(60);
}

/** The last live event; `null` before the first. */
let live = null;
/** Server's clock less ours, in seconds: the graphs go by the server's. */
let skew = 0;
let paused = false;
let history = new History(range.value);

const parts = {
  panels: panels(byId),
  dominant: new DominantLine(byId("dominant")),
  phases: new Phases(byId("phases"), byId("phases-tools")),
  price: new Price(byId("price")),
  tables: tables(byId),
  lifetimes: new Histogram(byId("lifetimes"), { unit: "seconds", things: "connections closed" }),
  requests: new Histogram(byId("requests"), {
    unit: "count", things: "connections closed",
    more: ({ minute }) => (minute.requests_per_handshake === null ? null : `${format.digits3(minute.requests_per_handshake)} requests per handshake in the last minute`),
  }),
  ages: new Histogram(byId("ages"), { unit: "seconds", things: "tickets resumed" }),
  firing: new Firing(byId("firing"), byId("alarm-news")),
  empty: new Empty(byId("empty")),
};

const clockNow = () => Date.now() / 1000 + skew;

/** Draws graphs; with every event, and once a second while there are none, so that a silence grows before one's eyes. */
function draw() {
  if (document.hidden || paused) return;
  const to = connection.state === "live" && live ? live.at_seconds : clockNow();
  const from = to - history.seconds;
  const points = history.drawn().filter((point) => point.at >= from - 2 * history.step);
  parts.panels.show({ live, history, points, times: points.map((point) => point.at), from, to, marks: history.marks });
}

/** Shows everything there is to say of this moment. */
function show() {
  if (document.hidden || paused || !live) return;
  facts();
  document.body.dataset.at = live.at_seconds;
  document.body.dataset.handshakes = live.mixes.kinds.reduce((sum, kind) => sum + kind.total, 0);
  parts.firing.show(live);
  parts.empty.show(live, history.quiet);
  parts.dominant.show(live);
  parts.phases.show(live);
  parts.price.show(live);
  parts.tables.show({ live, marks: history.marks.filter((mark) => mark.at_seconds >= live.at_seconds - history.seconds) });
  parts.lifetimes.show(live.lifetimes, live);
  parts.requests.show(live.requests_per_connection, live);
  parts.ages.show(live.ticket_ages, live);
  draw();
}

/** The header line. */
function facts() {
  const { instance } = live;
  const agreement = instance.ledger_agreement;
  const list = [
    ["host", instance.host],
    ["version", instance.version],
    ["configuration", `${format.shortHash(instance.config_hash)}, ${format.age(live.at_seconds - instance.config_since_seconds)} old`, instance.config_hash],
    ["workers", `${instance.workers} on ${format.count(instance.cores)} cores`],
    ["up", format.age(live.at_seconds - instance.started_seconds)],
    ["ledger", instance.ledger ? (agreement === null ? "on" : `explains ${format.share(agreement)}`) : "off", "CPU time that the ledger explains over what the kernel counted for the workers"],
  ];
  const box = byId("facts");
  while (box.children.length < list.length) box.append(make("div", {}, make("dt"), make("dd")));
  list.forEach(([name, value, title], place) => {
    const [term, text] = box.children[place].children;
    setText(term, name);
    setText(text, value);
    setAttribute(text, "title", title ?? null);
    setAttribute(text, "data-figure", name);
  });
  const firing = live.alarms.filter((alarm) => alarm.state === "firing").length;
  document.title = `${firing > 0 ? `(${firing}!) ` : ""}${instance.host} · Tollgate`;
}

/** State of the line, in words. */
function sayState() {
  const { state, silence } = connection;
  const text = paused ? "paused" : { connecting: "connecting", live: "live", lost: `no answer for ${format.age(silence)}, trying again` }[state];
  document.body.dataset.state = paused ? "paused" : state;
  setText(byId("state").lastElementChild, text);
}

/** Something to know that is no alarm; stays until it is put away. */
function notice(key, text) {
  const box = byId("notices");
  box.querySelector(`[data-key="${key}"]`)?.remove();
  if (text === null) return;
  const line = make("p", { class: "notice", "data-key": key }, make("span", { text }), make("button", { type: "button", text: "×", "aria-label": "Put away", onclick: () => line.remove() }));
  box.append(line);
}

/** Asks for history anew; events that arrive meanwhile wait in the list. */
let asked = 0;
async function load() {
  const number = (asked += 1);
  const next = new History(range.value);
  const before = history;
  try {
    const answer = await past(next.seconds, next.wanted);
    if (number !== asked) return;
    next.points = before.points;
    next.marks = before.marks;
    next.replace(answer, live?.instance.started_seconds ?? 0);
    if (live) next.begin(live);
    history = next;
    notice("history", null);
    show();
  } catch (error) {
    if (number === asked) before.seconds = next.seconds;
    if (number === asked && connection.state !== "lost") notice("history", `The history could not be read: ${error.message}.`);
  }
}

function onlive(event, { fresh, restarted, silent }) {
  const before = live;
  const first = live === null;
  live = event;
  skew = live.at_seconds - Date.now() / 1000;
  sayState();
  if (restarted) notice("restart", `The server was started anew at ${format.clock(live.instance.started_seconds)}; totals begin there, and ${format.age(silent)} were not seen. Older points are kept by this page alone.`);
  if (before && before.instance.version !== live.instance.version) notice("version", `The server is version ${live.instance.version} now, this page is of ${before.instance.version}: load it again.`);
  if (fresh) {
    history.begin(live);
    show();
    if (first) fitRange();
    load();
    return;
  }
  history.append(live);
  const reloaded = before.instance.config_since_seconds !== live.instance.config_since_seconds;
  if (newlyFiring() || reloaded) load();
  show();
}

/** Whether an alarm began to fire with this event: its mark is in the history then. */
let loud = "";
function newlyFiring() {
  const now = live.alarms.filter((alarm) => alarm.state === "firing").map((alarm) => `${alarm.name} ${alarm.subject} ${alarm.since_seconds}`).join();
  const changed = now !== loud && now !== "";
  loud = now;
  return changed;
}

const connection = new Connection({ onlive, onstate: sayState });

setInterval(() => {
  sayState();
  if (connection.state !== "live") draw();
}, 1000);
document.addEventListener("visibilitychange", show);

// Light and dark.

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
const themeButton = make("button", { type: "button", id: "theme", onclick: () => setTheme(dark() ? "light" : "dark") });

/** A choice that is the system's anyway is not kept, so that it follows the system again. */
function setTheme(theme) {
  const own = theme !== (systemDark.matches ? "dark" : "light");
  kept.set("theme", own ? theme : null);
  document.documentElement.dataset.theme = theme;
  showTheme();
}

function showTheme() {
  const other = dark() ? "light" : "dark";
  setText(themeButton, dark() ? "☀" : "☾");
  setAttribute(themeButton, "aria-label", `Change to ${other}`);
  setAttribute(themeButton, "title", `Change to ${other} (t)`);
  recolour();
}

systemDark.addEventListener("change", showTheme);

// Keyboard.

const KEYS = [
  { key: "1", what: "the last minute", act: () => range.choose(60) },
  { key: "2", what: "the last ten minutes", act: () => range.choose(600) },
  { key: "3", what: "the last two hours", act: () => range.choose(7200) },
  { key: "4", what: "the last day", act: () => range.choose(86400) },
  { key: "m", what: "next mix: suite, version, group, certificate", act: () => parts.panels.nextMix() },
  { key: "c", what: "scale of CPU: fit, all cores", act: () => parts.panels.nextScale() },
  { key: "s", what: "where each figure comes from", act: () => parts.phases.toggleSources() },
  { key: "p", what: "hold still, and go on", act: () => pause() },
  { key: "t", what: "light or dark", act: () => themeButton.click() },
  { key: "?", what: "this list", act: () => help() },
];
const ON_GRAPHS = [
  ["← →", "read values, on a graph that has the focus"],
  ["⇧ ← →", "ten points at a time"],
  ["Home End", "first and last point"],
  ["Esc", "back to now"],
];

function pause() {
  paused = !paused;
  sayState();
  if (!paused) show();
}

function help() {
  const dialog = byId("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

/** Keys of one letter can be switched off for those whose tools type by themselves. */
let single = kept.get("keys", "on") === "on";

function makeHelp() {
  const line = ([keys, what]) => make("tr", {}, make("th", { scope: "row" }, ...keys.split(" ").map((key) => make("kbd", { text: key }))), make("td", { text: what }));
  const box = make("input", { type: "checkbox", id: "single" });
  box.checked = single;
  box.addEventListener("change", () => {
    single = box.checked;
    kept.set("keys", single ? "on" : "off");
  });
  byId("help").append(make("h2", { id: "help-title", text: "Keyboard" }),
    make("table", {}, make("tbody", {}, ...KEYS.map(({ key, what }) => line([key, what])), ...ON_GRAPHS.map(line))),
    make("p", {}, make("label", {}, box, " Keys of one letter do something")),
    make("button", { type: "button", text: "Close", onclick: help }));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(input|textarea|select)$/i.test(event.target.tagName)) return;
  const found = KEYS.find(({ key }) => key === event.key);
  if (!found || (!single && found.key !== "?") || (byId("help").open && found.key !== "?")) return;
  event.preventDefault();
  found.act();
});

byId("controls").append(range.box, themeButton, make("button", { type: "button", text: "?", title: "Keyboard (?)", "aria-label": "Keyboard", onclick: help }));
byId("open-help").addEventListener("click", help);
makeHelp();
showTheme();
