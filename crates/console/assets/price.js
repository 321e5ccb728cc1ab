// The price of a miss: what resumption saves, and what its loss would cost, against the cores that there are.

import { keyed, make, setAttribute, setText } from "./elements.js";
import * as format from "./format.js";

const coresText = (value) => (value === null || value === undefined ? format.UNKNOWN : `${format.cores(value)} cores`);

/** The bars: what is needed in each case. */
const CASES = [
  { key: "cores_now", name: (live) => (live.minute.hit_rate === null ? "now" : `now, ${format.share(live.minute.hit_rate)} resume`) },
  { key: "cores_at_half", name: () => "if half of the handshakes resumed" },
  { key: "cores_at_zero", name: () => "if none resumed" },
  { key: "tls_cores_at_zero", name: () => "of that, TLS alone", part: true },
];

export class Price {
  constructor(section) {
    this.sum = make("dl", { class: "figures" });
    this.bars = make("ul", { class: "cases" });
    this.arithmetic = make("ol", { class: "arithmetic" });
    this.assumed = make("ul", { class: "assumed" });
    const how = make("div", {}, make("h3", { text: "How these come about" }), this.arithmetic, this.assumed);
    section.append(this.sum, make("div", { class: "columns" }, this.bars, how));
  }

  show(live) {
    const { price } = live;
    this.#figures(live, price);
    const there = price.cores_there_are;
    const most = Math.max(there, ...CASES.map((one) => price[one.key] ?? 0)) * 1.04 || 1;
    keyed(this.bars, CASES, (one) => one.key, () => make("li", {}, make("span", { class: "what" }), make("span", { class: "value" }),
      make("span", { class: "rail", "aria-hidden": "true" }, make("i", { class: "need" }), make("i", { class: "over" }), make("b"))), (line, one) => {
      const value = price[one.key];
      const over = value !== null && value > there;
      const [what, number, rail] = line.children;
      setText(what, one.name(live));
      setText(number, `${coresText(value)}${over ? ", more than there are" : ""}`);
      setAttribute(number, "data-figure", one.key);
      line.classList.toggle("over", over);
      line.classList.toggle("part", Boolean(one.part));
      const percent = (cores) => `${(100 * cores) / most}%`;
      rail.children[0].style.width = percent(Math.min(value ?? 0, there));
      rail.children[1].style.left = percent(there);
      rail.children[1].style.width = percent(Math.max(0, (value ?? 0) - there));
      rail.children[2].style.left = percent(there);
    });
    lines(this.arithmetic, price.arithmetic);
    lines(this.assumed, price.assumptions.map((text) => `~ ${text}`));
  }

  #figures(live, price) {
    const growing = price.seconds_of_headroom;
    const list = [
      { name: "saved by resumption now", value: coresText(price.saved_cores), small: price.saved_cores === null ? "the cost of a full handshake is not known yet" : `${format.rate(live.minute.resumed_per_second)} /s resumed`, main: true },
      { name: "a miss costs more by", value: format.micros(price.micros_per_miss), small: "CPU, in the live mix" },
      { name: "cores there are", value: format.count(price.cores_there_are), small: `${live.instance.workers} workers` },
      { name: "headroom", value: coresText(price.headroom_cores), small: growing === null ? "the load does not grow" : `used up in ${format.seconds(growing)} at the growth of the last five minutes` },
    ];
    keyed(this.sum, list, (one) => one.name, (one) => make("div", { class: one.main ? "main" : null }, make("dt", { text: one.name }), make("dd"), make("dd", { class: "small" })), (box, one) => {
      setText(box.children[1], one.value);
      setText(box.children[2], one.small);
    });
  }
}

function lines(list, texts) {
  list.hidden = texts.length === 0;
  keyed(list, texts, (_, place) => place, () => make("li"), (line, text) => setText(line, text.replaceAll(" us", " µs")));
}
