// Tables: sites, listeners, workers, unknown keys, certificates, alarms, configurations, events.

import { Table, make, setText } from "./elements.js";
import * as format from "./format.js";
import { MARKS } from "./graphs.js";
import { alarmKey } from "./sections.js";

const number = true;
const rateColumn = (head, field) => ({ head, unit: "/s", number, of: (row) => format.rate(row[field]), sort: (row) => row[field] });

const SITES = [
  { head: "site", of: (row) => row.site, sort: (row) => row.site },
  rateColumn("full", "full_per_second"),
  rateColumn("resumed", "resumed_per_second"),
  { head: "hit rate", number, of: (row) => format.share(row.hit_rate), sort: (row) => row.hit_rate },
  rateColumn("requests", "requests_per_second"),
  { head: "CPU", unit: "cores", number, title: () => "CPU of handshakes: phases 1 and 2", of: (row) => format.cores(row.handshake_cores), sort: (row) => row.handshake_cores },
  { head: "a full costs", number, of: (row) => format.micros(row.micros_per_full), sort: (row) => row.micros_per_full },
  { head: "a resumed costs", number, of: (row) => format.micros(row.micros_per_resumed), sort: (row) => row.micros_per_resumed },
];

const LISTENERS = [
  { head: "listener", of: (row) => row.listener },
  rateColumn("accepted", "accepted_per_second"),
  rateColumn("full", "full_per_second"),
  rateColumn("resumed", "resumed_per_second"),
  { head: "open", number, of: (row) => format.count(row.open), sort: (row) => row.open },
];

const WORKERS = [
  { head: "worker", of: (row) => String(row.worker) },
  rateColumn("accepted", "accepted_per_second"),
  { ...rateColumn("shaken", "handshakes_per_second"), title: () => "handshakes completed" },
  rateColumn("requests", "requests_per_second"),
  { head: "CPU", unit: "cores", number, of: (row) => format.cores(row.cores), sort: (row) => row.cores },
  { head: "TLS", unit: "cores", number, of: (row) => format.cores(row.tls_cores), sort: (row) => row.tls_cores },
];

const UNKNOWN_KEYS = [
  { head: "key name", of: (row) => `${row.name.slice(0, 16)}${row.name.length > 16 ? "…" : ""}`, title: (row) => row.name, mark: () => "code" },
  { head: "tickets", number, of: (row) => format.count(row.count) },
];

const soon = (row) => (row.days_left < 0 ? "bad" : row.days_left < 14 ? "warn" : "");
const CERTIFICATES = [
  { head: "site", of: (row) => row.site },
  { head: "kind", of: (row) => row.certificate },
  { head: "ends", number, of: (row) => format.day(row.expires_seconds) },
  { head: "left", number, mark: soon, of: (row) => (row.days_left < 0 ? "ended" : `${row.days_left < 14 ? "⚠ " : ""}${format.seconds(row.days_left < 2 ? row.days_left * 86400 : Math.floor(row.days_left) * 86400)}`) },
];

const STATES = { firing: "! firing", pending: "… pending", quiet: "✓ quiet" };
const ALARMS = (now) => [
  { head: "alarm", of: (row) => format.words(row.name) + (row.subject ? `: ${row.subject}` : "") },
  { head: "state", of: (row) => STATES[row.state] ?? row.state, mark: (row) => ({ firing: "bad", pending: "warn", quiet: "good" })[row.state] },
  { head: "seen", number, of: (row) => format.inUnit(row.value, row.unit) },
  { head: "threshold", number, of: (row) => format.inUnit(row.threshold, row.unit) },
  { head: "since", number, of: (row) => (row.since_seconds > 0 ? format.moment(row.since_seconds, now()) : format.UNKNOWN) },
  { head: "means", of: (row) => row.sentence, mark: () => "prose" },
  { head: "what to do", of: (row) => row.advice, mark: () => "prose" },
];

/** Cost of a handshake against that under the configuration before. */
function change(row, all) {
  const before = all[all.indexOf(row) - 1];
  if (!before?.micros_per_handshake || !row.micros_per_handshake) return format.UNKNOWN;
  const percent = (100 * (row.micros_per_handshake - before.micros_per_handshake)) / before.micros_per_handshake;
  return `${percent >= 0 ? "+" : "−"}${format.fixed(Math.abs(percent), 1)}\u00a0%`;
}
const CONFIGURATIONS = (now, all) => [
  { head: "configuration", of: (row) => format.shortHash(row.hash), title: (row) => row.hash, mark: () => "code" },
  { head: "since", number, of: (row) => format.moment(row.since_seconds, now()) },
  { head: "handshakes", number, of: (row) => format.count(row.handshakes) },
  { head: "hit rate", number, of: (row) => format.share(row.hit_rate) },
  { head: "per handshake", number, of: (row) => format.micros(row.micros_per_handshake) },
  { head: "change", number, of: (row) => change(row, all()) },
  { head: "CPU", unit: "cores", number, of: (row) => format.cores(row.cores) },
];

const EVENTS = (now) => [
  { head: "when", of: (row) => format.moment(row.at_seconds, now()) },
  { head: "what", of: (row) => `${MARKS[row.kind]?.sign ?? "•"} ${MARKS[row.kind]?.word ?? row.kind}` },
  { head: "which", of: (row) => (row.kind === "alarm" ? row.text : format.shortHash(row.text)), title: (row) => row.text, mark: (row) => (row.kind === "alarm" ? "prose" : "code") },
];

/** Makes all tables in their sections. */
export function tables(byId) {
  let live = null;
  const now = () => live.at_seconds;
  const put = (id, columns, key, empty) => {
    const table = new Table(byId(`${id}-title`).textContent, columns, { key, empty });
    byId(id).append(table.box);
    return table;
  };
  const sites = put("sites", SITES, (row) => row.site, "no site has been asked for yet");
  const listeners = put("listeners", LISTENERS, (row) => row.listener, "no listener");
  const balance = make("p", { class: "sum" });
  byId("workers").append(balance);
  const workers = put("workers", WORKERS, (row) => row.worker, "no worker has reported yet");
  const unknown = put("unknown", UNKNOWN_KEYS, (row) => row.name, "every ticket so far named a key that is held here");
  const certificates = put("certificates", CERTIFICATES, (row, place) => `${row.site} ${row.certificate} ${place}`, "no certificate: all listeners pass through");
  const alarms = put("alarms", ALARMS(now), alarmKey, "no alarm is evaluated");
  const configurations = put("configurations", CONFIGURATIONS(now, () => live.configurations), (row) => `${row.hash} ${row.since_seconds}`, "none");
  const events = put("events", EVENTS(now), (row) => `${row.at_seconds} ${row.kind} ${row.text}`, "neither start nor reload nor alarm");
  return {
    show(seen) {
      live = seen.live;
      sites.show(live.sites);
      listeners.show(live.listeners);
      const uneven = live.worker_imbalance;
      setText(balance, uneven === null ? "nothing accepted in the last minute" : `the busiest accepts ${format.fixed(uneven, 2)} times the mean${uneven <= 1.2 ? ", which is even enough" : ": uneven"}`);
      workers.show(live.workers);
      unknown.show(live.unknown_keys);
      certificates.show(live.certificates);
      alarms.show(live.alarms);
      configurations.show(live.configurations);
      events.show([...seen.marks].reverse());
    },
  };
}
