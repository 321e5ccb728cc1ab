// What the graphs draw: points in time, from `/history.json` and then one more with each live event.
//
// A time in which nothing is known, because no server answered or none ran, is a gap: never a zero, never a line drawn
// across. Points of a server that has been restarted since are kept; the new one cannot know them.

/** Columns of `/history.json` that have one value per point, and where a live event has the same. */
const PLAIN = {
  full_per_second: (live) => live.second.full_per_second,
  resumed_per_second: (live) => live.second.resumed_per_second,
  hit_rate: (live) => live.second.hit_rate,
  requests_per_second: (live) => live.second.requests_per_second,
  asymmetric_cores: (live) => live.second.cores.asymmetric,
  derivation_cores: (live) => live.second.cores.derivation,
  records_cores: (live) => live.second.cores.records,
  not_tls_cores: (live) => live.second.cores.not_tls,
  worker_cores: (live) => live.second.cores.workers,
  cores_at_zero: (live) => live.price.cores_at_zero,
};

/** Columns with a name each. A live event has their totals, so the difference to the event before is the rate. */
const NAMED = {
  misses: (live) => live.misses,
  suites: (live) => live.mixes.suites,
  versions: (live) => live.mixes.versions,
  groups: (live) => live.mixes.groups,
  certificates: (live) => live.mixes.certificates,
  signatures: (live) => live.mixes.signatures,
};

/** A point at which nothing is known. */
const gap = (at) => ({ at, gap: true });

export class History {
  constructor(seconds) {
    this.seconds = seconds;
    this.step = 1;
    this.points = [];
    this.marks = [];
    this.pending = [];
    this.last = null;
  }

  /** How many points to ask for: enough for a wide graph, and steps of at least a second. */
  get wanted() {
    return Math.min(360, this.seconds);
  }

  /** Takes in an answer of `/history.json`. `started`: since when that server runs. */
  replace(past, started) {
    const fresh = past.at_seconds.map((at, place) => {
      const point = { at };
      for (const name of Object.keys(PLAIN)) point[name] = past[name][place];
      for (const name of Object.keys(NAMED)) {
        point[name] = Object.fromEntries((past[name] ?? []).map((column) => [column.name, column.values[place]]));
      }
      return point;
    });
    const first = fresh.length > 0 ? fresh[0].at - past.step_seconds : started;
    const before = this.points.filter((point) => point.at <= Math.min(first, started));
    this.step = past.step_seconds;
    this.points = before.length > 0 && fresh.length > 0 ? [...before, gap(before.at(-1).at + 0.001), ...fresh] : [...before, ...fresh];
    const older = this.marks.filter((mark) => mark.at_seconds < Math.floor(started));
    this.marks = [...older, ...past.marks];
    this.pending = [];
  }

  /** Remembers the totals of a live event without a point for it: the next one is counted from here. */
  begin(live) {
    this.last = live;
  }

  /** Takes in a live event. */
  append(live) {
    const before = this.last;
    this.last = live;
    this.pending.push(this.#point(live, before));
    const length = this.pending.reduce((sum, point) => sum + point.seconds, 0);
    if (length < this.step - 0.25) return;
    this.points.push(this.#mean());
    this.pending = [];
    const oldest = live.at_seconds - this.seconds - 2 * this.step;
    while (this.points.length > 0 && this.points[0].at < oldest) this.points.shift();
  }

  #point(live, before) {
    const point = { at: live.at_seconds, seconds: live.second.seconds || 1 };
    for (const [name, of] of Object.entries(PLAIN)) point[name] = of(live);
    const passed = before ? live.at_seconds - before.at_seconds : 0;
    for (const [name, of] of Object.entries(NAMED)) {
      if (passed <= 0) {
        point[name] = null;
        continue;
      }
      const totals = new Map(of(before).map((portion) => [portion.name, portion.total]));
      point[name] = Object.fromEntries(of(live).map((portion) => [portion.name, Math.max(0, portion.total - (totals.get(portion.name) ?? 0)) / passed]));
    }
    return point;
  }

  /** The pending events as one point. The hit rate is weighed by handshakes, the rest by time. */
  #mean() {
    const all = this.pending;
    const mean = (values) => {
      const there = values.filter((value) => value !== null && value !== undefined);
      return there.length === 0 ? null : there.reduce((sum, value) => sum + value, 0) / there.length;
    };
    const point = { at: all.at(-1).at };
    for (const name of Object.keys(PLAIN)) point[name] = mean(all.map((one) => one[name]));
    const completed = point.full_per_second + point.resumed_per_second;
    point.hit_rate = completed > 0 ? point.resumed_per_second / completed : null;
    for (const name of Object.keys(NAMED)) {
      const there = all.map((one) => one[name]).filter(Boolean);
      const names = new Set(there.flatMap((one) => Object.keys(one)));
      point[name] = there.length === 0 ? null : Object.fromEntries([...names].map((key) => [key, mean(there.map((one) => one[key] ?? 0))]));
    }
    return point;
  }

  /** All points, the one that is being filled last, with a gap wherever time is missing. */
  drawn() {
    const all = this.pending.length > 0 ? [...this.points, this.#mean()] : this.points;
    const drawn = [];
    all.forEach((point, place) => {
      const before = all[place - 1];
      if (before && !point.gap && !before.gap && point.at - before.at > Math.max(3.5, 2.5 * this.step)) drawn.push(gap(before.at + 0.001));
      drawn.push(point);
    });
    return drawn;
  }

  /** Names in a named column, the one with the most in sight first; no more than `most`, the rest as "others". */
  names(column, most) {
    const sums = new Map();
    for (const point of this.points) {
      for (const [name, value] of Object.entries(point[column] ?? {})) sums.set(name, (sums.get(name) ?? 0) + value);
    }
    const sorted = [...sums].filter(([, sum]) => sum > 0).sort((one, other) => other[1] - one[1]).map(([name]) => name);
    return sorted.slice(0, most);
  }

  /** Whether anything was shaken in the time that is shown. */
  get quiet() {
    return this.points.every((point) => !point.full_per_second && !point.resumed_per_second);
  }
}
