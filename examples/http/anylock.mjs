// A client of "anylock serve" for Node 18 or later, with fetch only. Copy this file into your program.
//
//   const locks = new Locks("http://127.0.0.1:7171");
//   const lease = await locks.acquire("invoice/42", { ttl: 30_000, wait: 60_000 });
//   try {
//     await charge(lease.token, { signal: lease.signal });  // pass the fencing token to what you write to
//   } finally {
//     await lease.release();
//   }
//
// With { shared: true } the lease is for a reader, beside other readers; with { label: "web-3" } others see the label.
// The lease renews itself after a third of the time that is left. lease.signal is aborted when the lease ends, at its deadline at the latest, whatever
// the network does. Times are in milliseconds.
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { performance } from "node:perf_hooks";

export class Held extends Error {}        // another owner holds the key; cause is the server's answer
export class Lost extends Error {}        // the lease has ended without a release
export class Unavailable extends Error {} // the server or its store does not answer; the outcome is unknown

const now = () => performance.now(); // monotonic
const sleep = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));

export class Locks {
  constructor(url, { token } = {}) {
    this.url = url.replace(/\/$/, "");
    this.headers = token ? { authorization: `Bearer ${token}` } : {};
  }

  // acquire waits for a busy key for up to wait, and then throws Held.
  async acquire(key, { ttl = 30_000, wait = 0, shared = false, label = "" } = {}) {
    const owner = `${randomBytes(16).toString("hex")}@${hostname()}`.slice(0, 128);
    const end = now() + wait;
    const query = { owner, ttl_ms: ttl, shared, label };
    for (;;) {
      const sent = now();
      // The server ends the wait before our own time limit does. The same owner again keeps our place in the queue.
      const poll = Math.floor(Math.min(Math.max(0, end - sent), 20_000));
      const { status, answer } = await this.call("PUT", key, "", { ...query, wait_ms: poll }, 30_000);
      if (status === 200) return new Lease(this, key, owner, ttl, sent, answer);
      const busy = [0, 423, 429, 503].includes(status);
      if (busy && now() < end) {
        if (status !== 423) {
          query.retry = true; // a grant that we never heard of may be in the way
          await sleep(Math.min(500, end - now()));
        }
        continue;
      }
      if (status === 0) await this.release(key, owner); // a grant may be on its way
      if (status === 423) throw new Held(answer.message, { cause: answer });
      throw new (busy ? Unavailable : Error)(answer.message, { cause: answer });
    }
  }

  async release(key, owner, lease = "") {
    for (let attempt = 0; attempt < 10; attempt++) { // then the TTL ends the lease
      const { status } = await this.call("DELETE", key, "", { owner, lease });
      if (status !== 0 && status !== 503) return;
      await sleep(100 * attempt);
    }
  }

  // call answers with status 0 if the outcome is unknown.
  async call(method, key, action, query, timeout = 5_000) {
    const url = `${this.url}/v1/locks/${encodeURIComponent(key)}${action}?${new URLSearchParams(query)}`;
    try {
      const reply = await fetch(url, { method, headers: this.headers, signal: AbortSignal.timeout(Math.ceil(timeout)) });
      const text = await reply.text();
      return { status: reply.status, answer: text ? JSON.parse(text) : {} };
    } catch (e) {
      return { status: 0, answer: { message: String(e) } };
    }
  }
}

class Lease {
  #locks; #ttl; #name; #deadline; #third; #expiry; #renewal; #released = false;
  #ended = new AbortController();

  constructor(locks, key, owner, ttl, sent, answer) {
    this.key = key;
    this.owner = owner;
    this.token = answer.token; // text: a number this large is not exact in JavaScript
    this.signal = this.#ended.signal;
    this.#locks = locks;
    this.#ttl = ttl;
    this.#name = answer.lease; // lets a restarted server, or another one, continue the lease
    this.#extend(sent + answer.deadline_ms);
    this.#later(this.#third);
  }

  // check throws Lost if the lease has ended, also if a timer is late.
  check() {
    if (now() >= this.#deadline) this.#lose();
    this.signal.throwIfAborted();
  }

  // release throws Lost if the lease had ended before.
  async release() {
    this.#released = true;
    clearTimeout(this.#renewal);
    this.check();
    clearTimeout(this.#expiry);
    await this.#locks.release(this.key, this.owner, this.#name);
  }

  #extend(deadline) {
    this.#deadline = deadline;
    // Not a third of the TTL: some stores let a lease with a long TTL end sooner unless it is renewed.
    this.#third = Math.max(0, deadline - now()) / 3;
    clearTimeout(this.#expiry);
    const most = 2 ** 31 - 1;
    this.#expiry = setTimeout(() => this.#lose(), Math.min(most, Math.max(0, deadline - now())));
  }

  #lose() {
    this.#deadline = 0;
    clearTimeout(this.#renewal);
    clearTimeout(this.#expiry);
    this.#ended.abort(new Lost(this.key));
  }

  #later(pause) {
    this.#renewal = setTimeout(() => this.#renew(), pause);
  }

  async #renew() {
    const sent = now();
    const timeout = Math.max(1, Math.min(this.#deadline - sent, Math.max(this.#third, 500)));
    const query = { owner: this.owner, lease: this.#name, ttl_ms: this.#ttl };
    const { status, answer } = await this.#locks.call("POST", this.key, "/renew", query, timeout);
    if (this.#released || this.signal.aborted) return;
    if (status === 410) return this.#lose();
    if (status === 200) this.#extend(sent + answer.deadline_ms);
    this.#later(status === 200 ? this.#third : Math.min(1_000, this.#ttl / 10));
  }
}
