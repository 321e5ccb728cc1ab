// Making and changing elements. Numbers change every second, so nothing is made anew that can be changed in place:
// focus, open disclosures and selected text stay where they are.

/** An element with attributes and children; `class`, `text` and `on…` mean what one would expect. */
export function make(name, attributes = {}, ...children) {
  const made = name === "svg" || name === "rect" || name === "path" ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Sets text only where it differs: no needless layout, and a selection survives. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The same, where `code` stands between backticks. */
export function setProse(node, text) {
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...text.split("`").map((part, place) => (place % 2 === 1 ? make("code", { text: part }) : part)));
}

/** Sets an attribute only where it differs; `null` takes it away. */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Makes the children of `parent` those of `items`: one per key, kept while the key stays, in the order of the items. */
export function keyed(parent, items, key, create, update) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, place) => {
    const name = String(key(item, place));
    let child = before.get(name);
    before.delete(name);
    if (!child) {
      child = create(item);
      child.dataset.key = name;
    }
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
    update(child, item, place);
  });
  for (const gone of before.values()) gone.remove();
}

/** A horizontal bar for a share of 1, drawn behind nothing and read by nobody: the number stands beside it. */
export function bar(className = "") {
  const fill = make("i");
  const box = make("span", { class: `bar ${className}`, "aria-hidden": "true" }, fill);
  return { box, set: (value) => (fill.style.width = `${Math.min(100, Math.max(0, (value ?? 0) * 100))}%`) };
}

/**
 * A table whose rows are changed in place.
 *
 * `columns`: `{ head, of(row), number, unit, title(row), sort(row), mark(row) }`. `of` gives text. A column with
 * `sort` has a button in its head. `mark` names a class for the cell. Roles are written out because on a phone the rows
 * of a table with many columns are laid out as blocks, and browsers would forget them.
 */
export class Table {
  constructor(caption, columns, { key, empty = "none" }) {
    this.columns = columns;
    this.key = key;
    this.empty = empty;
    this.order = null;
    this.rows = [];
    this.body = make("tbody", { role: "rowgroup" });
    this.heads = columns.map((column, place) => this.#head(column, place));
    this.none = make("p", { class: "none", text: empty, hidden: true });
    this.table = make("table", { role: "table", "aria-label": caption },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...this.heads)), this.body);
    this.box = make("div", { class: columns.length > 6 ? "table wide" : "table" }, this.table, this.none);
  }

  #head(column, place) {
    const head = make("th", { role: "columnheader", scope: "col", class: column.number ? "number" : null });
    const label = column.unit ? [column.head, " ", make("small", { text: column.unit })] : [column.head];
    if (column.sort) head.append(make("button", { type: "button", class: "sort", onclick: () => this.#sortBy(place) }, ...label));
    else head.append(...label);
    return head;
  }

  #sortBy(place) {
    const down = !(this.order?.place === place && this.order.down);
    this.order = { place, down };
    this.heads.forEach((head, index) => setAttribute(head, "aria-sort", index === place ? (down ? "descending" : "ascending") : null));
    this.show(this.rows);
  }

  /** Shows `rows`, in the order that the reader chose, else in theirs. */
  show(rows) {
    this.rows = rows;
    this.table.hidden = rows.length === 0;
    this.none.hidden = rows.length > 0;
    let ordered = rows;
    if (this.order) {
      const by = this.columns[this.order.place].sort;
      const sign = this.order.down ? -1 : 1;
      ordered = [...rows].sort((one, other) => sign * compare(by(one), by(other)));
    }
    keyed(this.body, ordered, this.key, () => this.#row(), (line, row) => this.#fill(line, row));
  }

  #row() {
    return make("tr", { role: "row" }, ...this.columns.map((column, place) => make(place === 0 ? "th" : "td", {
      role: place === 0 ? "rowheader" : "cell", scope: place === 0 ? "row" : null, class: column.number ? "number" : null,
      "data-label": column.unit ? `${column.head}, ${column.unit}` : column.head,
    }, make("span"))));
  }

  #fill(line, row) {
    this.columns.forEach((column, place) => {
      const cell = line.children[place];
      setProse(cell.firstChild, column.of(row));
      if (column.title) setAttribute(cell, "title", column.title(row) ?? null);
      if (column.mark) cell.className = `${column.number ? "number " : ""}${column.mark(row) ?? ""}`;
    });
  }
}

function compare(one, other) {
  if (typeof one === "string") return one.localeCompare(other);
  return (one ?? -Infinity) - (other ?? -Infinity);
}

/** A choice of one out of few: `options` are `{ value, label, title }`. */
export class Choice {
  constructor(label, options, chosen, onchange) {
    this.options = options;
    this.value = chosen;
    this.onchange = onchange;
    this.buttons = options.map((option) => make("button", {
      type: "button", text: option.label, title: option.title, "data-value": option.value, onclick: () => this.choose(option.value),
    }));
    this.box = make("div", { class: "choice", role: "group", "aria-label": label }, ...this.buttons);
    this.#press();
  }

  #press() {
    this.buttons.forEach((button) => setAttribute(button, "aria-pressed", String(button.dataset.value === String(this.value))));
  }

  choose(value) {
    if (value === this.value) return;
    this.value = value;
    this.#press();
    this.onchange(value);
  }

  /** The next one, around. */
  next() {
    const place = this.options.findIndex((option) => option.value === this.value);
    this.choose(this.options[(place + 1) % this.options.length].value);
  }
}
