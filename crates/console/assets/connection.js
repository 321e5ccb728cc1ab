// The line to the server: live events, and history when there is reason to ask for it anew.
//
// The server may go away and come back, as the same process or as another one. The browser tries again by itself when
// a connection breaks; it does not when the answer is an error, nor when the line falls silent. This does both.

/** No event for so long means that the line is dead, in milliseconds: events come once a second. */
const SILENCE = 5000;
/** How long until the next attempt, in milliseconds, where the browser makes none. */
const AGAIN = 2000;

export class Connection {
  /**
   * `onlive(live, { fresh, restarted, silent })`: `fresh` for the first event after the page had none, `restarted` when
   * the process is another one, `silent` seconds without an event. `onstate(state)`: `connecting`, `live`, `lost`.
   */
  constructor({ onlive, onstate }) {
    Object.assign(this, { onlive, onstate, state: "connecting", heard: performance.now(), started: null, source: null, fresh: true });
    setInterval(() => this.#watch(), 1000);
    this.#open();
  }

  #open() {
    this.source?.close();
    this.source = new EventSource("events");
    this.opened = performance.now();
    this.source.addEventListener("live", (event) => this.#hear(JSON.parse(event.data)));
    this.source.addEventListener("error", () => this.#lose());
  }

  #hear(live) {
    const now = performance.now();
    const silent = (now - this.heard) / 1000;
    const restarted = this.started !== null && Math.abs(live.instance.started_seconds - this.started) > 0.5;
    const fresh = this.fresh || restarted || silent > SILENCE / 1000;
    Object.assign(this, { heard: now, started: live.instance.started_seconds, fresh: false });
    this.#become("live");
    this.onlive(live, { fresh, restarted, silent });
  }

  #lose() {
    this.fresh = true;
    if (this.state !== "connecting") this.#become("lost");
  }

  #watch() {
    const now = performance.now();
    if (this.state === "live" && now - this.heard > SILENCE) this.#lose();
    const dead = this.source.readyState === EventSource.CLOSED || now - this.heard > SILENCE;
    if (dead && now - this.opened > Math.max(AGAIN, SILENCE)) this.#open();
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.onstate(state);
  }

  /** Seconds since the last event. */
  get silence() {
    return (performance.now() - this.heard) / 1000;
  }
}

/** `/history.json` for the last `seconds`, at about `points` points. */
export async function past(seconds, points) {
  const answer = await fetch(`history.json?seconds=${seconds}&points=${points}`, { cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) throw new Error("the console wants a token: open the page with ?token=… once");
  if (!answer.ok) throw new Error(`/history.json answers ${answer.status}`);
  return answer.json();
}
