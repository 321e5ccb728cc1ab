// Numbers as people read them: few digits that move, always a unit, "–" for what cannot be known yet.

/** Shown for `null`: not known, which is not the same as zero. */
export const UNKNOWN = "–";

/** Between a number and its unit: they do not part at the end of a line. */
const SPACE = "\u00a0";

const byDigits = new Map();

/** `value` with exactly `digits` decimals and commas between thousands. */
export function fixed(value, digits) {
  if (!byDigits.has(digits)) {
    byDigits.set(digits, new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  const text = byDigits.get(digits).format(value);
  return /^-[0.,]+$/.test(text) ? text.slice(1) : text;
}

/** Three digits that mean something, whole numbers beyond: 0.0412, 1.84, 71.6, 3,704. */
export function digits3(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.00005) return value > 0 ? "<0.0001" : ">-0.0001";
  if (size < 0.0995) return fixed(value, 4);
  if (size < 0.9995) return fixed(value, 3);
  if (size < 9.995) return fixed(value, 2);
  return fixed(value, size < 99.95 ? 1 : 0);
}

/** A tick of an axis: 0.05, 0.2, 250, 1k, 1.5k. */
export function tick(value) {
  const [size, ending] = Math.abs(value) >= 1000 ? [value / 1000, "k"] : [value, ""];
  return `${Number(size.toPrecision(3))}${ending}`;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** A rate without its unit: 0.42, 9.87, 99.8, 412.3, 3,704. */
export function rate(value) {
  if (!known(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 9.995) return fixed(value, 2);
  return fixed(value, size < 999.95 ? 1 : 0);
}

/** A count: 8,123,456. */
export const count = (value) => (known(value) ? fixed(value, Number.isInteger(value) ? 0 : value < 10 ? 2 : 1) : UNKNOWN);

/** A share of 1 in percent; small ones keep their digits. */
export function share(value) {
  if (!known(value)) return UNKNOWN;
  const percent = value * 100;
  if (percent === 0) return `0${SPACE}%`;
  if (Math.abs(percent) < 0.095) return `${fixed(percent, 2)}${SPACE}%`;
  return `${fixed(percent, 1)}${SPACE}%`;
}

/** Cores without the word: three decimals, which is a thousandth of a core; four below a hundredth. */
export function cores(value) {
  if (!known(value)) return UNKNOWN;
  if (value === 0) return "0";
  return fixed(value, Math.abs(value) < 0.00995 ? 4 : Math.abs(value) < 9.995 ? 3 : 1);
}

/** Microseconds, as milliseconds or seconds when they are many. */
export function micros(value) {
  if (!known(value)) return UNKNOWN;
  if (Math.abs(value) >= 1e6) return `${digits3(value / 1e6)}${SPACE}s`;
  if (Math.abs(value) >= 9999.5) return `${digits3(value / 1e3)}${SPACE}ms`;
  if (Math.abs(value) >= 999.5) return `${fixed(value, 0)}${SPACE}µs`;
  return `${digits3(value)}${SPACE}µs`;
}

const STEPS = ["B", "KB", "MB", "GB", "TB"];

/** Bytes in powers of 1,024, as everywhere in Tollgate. */
export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  let step = 0;
  let size = value;
  while (Math.abs(size) >= 999.5 && step < STEPS.length - 1) {
    size /= 1024;
    step += 1;
  }
  return `${step === 0 ? fixed(size, 0) : digits3(size)}${SPACE}${STEPS[step]}`;
}

/** A length of time in its two largest units: 430 ms, 3.2 s, 4 min 10 s, 3 d 4 h. */
export function seconds(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 0) return `-${seconds(-value)}`;
  if (value < 0.9995) return value === 0 ? `0${SPACE}s` : `${digits3(value * 1000)}${SPACE}ms`;
  if (value < 10) return `${Number.isInteger(value) ? value : fixed(value, 1)}${SPACE}s`;
  const whole = Math.round(value);
  const [minute, hour, day] = [60, 3600, 86400];
  const two = (large, unit, small, rest) => {
    const [first, second] = [Math.floor(whole / large), Math.floor((whole % large) / small)];
    return second === 0 ? `${first}${SPACE}${unit}` : `${first}${SPACE}${unit} ${second}${SPACE}${rest}`;
  };
  if (whole < minute) return `${whole}${SPACE}s`;
  if (whole < hour) return two(minute, "min", 1, "s");
  if (whole < day) return two(hour, "h", minute, "min");
  return two(day, "d", hour, "h");
}

/** A bound of a bucket: a round number, so without the digits that say how exact it is. */
export function bound(value, unit) {
  if (unit !== "seconds") return tick(value);
  return value < 1 ? `${Number((value * 1000).toPrecision(3))}${SPACE}ms` : seconds(value);
}

/** How long ago; whole seconds, so that it does not jitter. */
export const age = (value) => (known(value) ? seconds(Math.max(0, Math.floor(value))) : UNKNOWN);

/** A value in one of the units that readings and alarms have. */
export function inUnit(value, unit) {
  if (!known(value)) return UNKNOWN;
  switch (unit) {
    case "micros":
      return micros(value);
    case "nanos_per_byte":
      return `${digits3(value)}${SPACE}ns/byte`;
    case "bytes":
      return bytes(value);
    case "cores":
      return `${cores(value)}${SPACE}cores`;
    case "per_second":
      return `${rate(value)}${SPACE}/s`;
    case "share":
      return share(value);
    case "seconds":
      return seconds(value);
    case "count":
      return count(value);
    default:
      return `${digits3(value)}${SPACE}${unit}`;
  }
}

const two = (value) => String(value).padStart(2, "0");

/** Time of day where the browser is: 17:03, or 17:03:21 when `fine`. */
export function clock(at, fine = true) {
  const date = new Date(at * 1000);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return fine ? `${text}:${two(date.getSeconds())}` : text;
}

/** A day: 2026-11-20. */
export function day(at) {
  const date = new Date(at * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The time of day, with the day when that was not today. */
export const moment = (at, now) => (day(at) === day(now) ? clock(at) : `${day(at)} ${clock(at, false)}`);

/** Enough of a hash to know it by. */
export const shortHash = (hash) => hash.slice(0, 10);

/** `certificate_expiring` as words. */
export const words = (name) => name.replaceAll("_", " ");
