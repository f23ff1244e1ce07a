// The current state of all queues, from the stream: one view for each queue, and its recent counters.
import { absolute, now, setServerTime } from "./format.js";

export const BUCKET_MS = 10000;
export const BUCKETS = 30;
const WINDOW_MS = 65000;
const ENOUGH_MS = 12000;
const OUTCOMES = ["done", "failed", "retried", "escaped"];

/** The counters of one queue over time: how much each grew, in buckets and in the last minute. */
class Past {
	constructor() {
		this.samples = [];
		this.buckets = new Map();
	}

	/** Counters fall if a queue is destroyed and created again: then the history starts again. */
	add(time, counters) {
		const last = this.samples.at(-1);
		if (last && counters.fetched < last.counters.fetched)
			this.samples = [];
		else if (last)
			this.#gain(time, counters.done - last.counters.done);
		this.samples.push({ time, counters });
		while (this.samples.length > 2 && this.samples[1].time < time - WINDOW_MS)
			this.samples.shift();
	}

	/** Minutes before the page was opened, spread evenly over the buckets; the bucket of that moment gets a share. */
	seed(minutes) {
		const opened = this.samples[0]?.time ?? now(), last = Math.floor(opened / BUCKET_MS);
		for (const { minute, counters } of minutes) {
			const start = Date.parse(minute), end = Math.min(start + 60000, opened);
			const pace = (counters.done ?? 0) / Math.max(end - start, BUCKET_MS);
			for (let b = start / BUCKET_MS; b <= last && b * BUCKET_MS < end; b++)
				this.buckets.set(b, (b === last ? this.buckets.get(b) ?? 0 : 0) + pace * Math.min(BUCKET_MS, end - b * BUCKET_MS));
		}
	}

	#gain(time, n) {
		const bucket = Math.floor(time / BUCKET_MS);
		this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + Math.max(0, n));
		for (const old of this.buckets.keys())
			if (old < bucket - 2 * BUCKETS)
				this.buckets.delete(old);
	}

	/** The growth of a counter in a minute; undefined: not observed long enough. Between two samples it did not change. */
	rate(counter, time) {
		const first = this.samples[0], last = this.samples.at(-1);
		if (!first || time - first.time < ENOUGH_MS)
			return undefined;
		const before = this.samples.findLast((s) => s.time <= time - 60000);
		const gained = last.counters[counter] - (before ?? first).counters[counter];
		return before ? gained : gained * 60000 / (time - first.time);
	}

	/** The last whole buckets, oldest first, as messages a minute. */
	line(time) {
		const end = Math.floor(time / BUCKET_MS);
		return Array.from({ length: BUCKETS }, (_, i) => (this.buckets.get(end - BUCKETS + i) ?? 0) * 60000 / BUCKET_MS);
	}
}

// The states of the connection in which the page shows old data, in words that continue with "for 5 s".
export const AWAY = { redis: "Redis has not answered", console: "The console has not answered", full: "The console has sent this page no figures" };

const UNSERVED = "no supervisor serves this queue: quredisd does not run, or its configuration does not have the queue";
const LEVEL = { well: "ok", ordered: "off", passing: "run", warning: "warn", bad: "bad" };	// of the table of holds

/** Of the handler while the breaker is open, of a worker to connect while Redis is away. */
function nextAttempt(state, served) {
	const at = { breaker: served.next_attempt_at, refused: served.next_connect_at, "no redis": served.next_connect_at }[state];
	return at > now() ? `; next attempt at ${absolute(at).split(" ")[1]}` : "";
}

/** Why the queue has this hold, on each host by its last report; without a reason in the report, what the hold means. */
function whyOf(hold, served) {
	const breaker = hold.state === "breaker";
	const causes = served.filter((s) => s.reason && (s.state === hold.state || (breaker && s.breaker)))
		.map((s) => `${served.length > 1 ? `${s.node}: ` : ""}${s.reason}${nextAttempt(hold.state, s)}`);
	const tries = breaker && served.some((s) => s.breaker && !Number.isNaN(s.next_attempt_at));	// no other hold forbids it
	return causes.length > 0 ? `${causes.join("; ")}${tries ? "; workers try one message at a time" : ""}` : hold.text;
}

/** The state of a queue over all hosts, in one word: that of the worst hold. */
function stateOf(queue, served, holds) {
	const states = served.flatMap((s) => [s.breaker ? "breaker" : null, s.state]).filter((t) => t);
	if (queue.paused)
		states.push("paused");
	const worst = holds.find((hold) => hold.level !== "well" && states.includes(hold.state));
	const unknown = states.find((t) => !holds.some((hold) => hold.state === t));
	if (unknown && worst?.level !== "bad")
		return { level: "unknown", word: unknown,
			why: `a supervisor reports the state "${unknown}", which this console does not know: its version of quredis may be newer` };
	if (worst)
		return { level: LEVEL[worst.level], word: worst.state, why: whyOf(worst, served), code: worst.code };
	if (served.length === 0)
		return { level: "none", word: "no workers", why: UNSERVED };
	if (served.every((s) => s.wanted === 0))
		return { level: "none", word: "no workers", why: "workers = 0 on every host" };
	return queue.transit_size > 0 ? { level: "run", word: "running", why: "" } : { level: "idle", word: "idle", why: "" };
}

/** Events: change (new data), link (the state of the connection), back (data again, after a time without: what was read before may be obsolete). */
export class Store extends EventTarget {
	constructor() {
		super();
		this.known = false;
		this.queues = [];       // views, in the order of the server
		this.holds = [];        // the table of holds, the worst first
		this.nodes = [];
		this.health = null;
		this.pasts = new Map();
		this.link = { state: "connecting", since: Date.now(), why: "" };
	}

	take(overview) {
		setServerTime(overview.time);
		this.time = overview.time;
		this.holds = overview.holds ?? [];
		this.nodes = overview.nodes ?? [];
		this.health = overview.health?.queues?.length > 0 ? overview.health : null;
		const stats = new Map((overview.stats ?? []).map((s) => [s.name, s]));
		const health = new Map((overview.health?.queues ?? []).map((q) => [q.queue, q]));
		const served = this.#served();
		this.queues = (overview.queues ?? []).map((queue) =>
			this.#view(queue, stats.get(queue.name), health.get(queue.name), served.get(queue.name) ?? []));
		this.known = true;
		this.had_queues ||= this.queues.length > 0;
		this.dispatchEvent(new Event("change"));
	}

	#served() {
		const served = new Map();
		for (const node of this.nodes)
			for (const queue of node.queues ?? [])
				served.set(queue.name, [...(served.get(queue.name) ?? []), { ...queue, node: node.node,
					next_attempt_at: node.at_ms + queue.next_attempt_ms, next_connect_at: node.at_ms + queue.next_connect_ms }]);
		return served;
	}

	#view(queue, stats, health, served) {
		const past = this.past(queue.name);
		if (stats)
			past.add(this.time, stats.counters);
		const workers = served.map((s) => Object.values(s.workers ?? {}).reduce((a, b) => a + b, 0));
		return {
			...queue, stats, health, served, past, state: stateOf(queue, served, this.holds),
			wanted: served.reduce((n, s) => n + s.wanted, 0), alive: workers.reduce((a, b) => a + b, 0),
		};
	}

	past(name) {
		if (!this.pasts.has(name))
			this.pasts.set(name, new Past());
		return this.pasts.get(name);
	}

	seed(stats) {
		for (const { name, minutes } of stats)
			if (minutes)
				this.past(name).seed(minutes);
		this.dispatchEvent(new Event("change"));
	}

	/** Of a state that a supervisor reports: the level of its badge, and what it means. */
	hold(state) {
		const hold = this.holds.find((t) => t.state === state);
		return { level: LEVEL[hold?.level] ?? "unknown", text: hold && hold.level !== "well" ? hold.text : "" };
	}

	queue(name) {
		return this.queues.find((q) => q.name === name);
	}

	/** Messages of a queue in a minute; until the stream has enough samples, the figure of the last health report. */
	rate(queue, counter) {
		return queue.past.rate(counter, now()) ?? queue.health?.rates?.[counter];
	}

	totals() {
		const sum = (of) => this.queues.reduce((n, q) => n + (of(q) ?? 0), 0);
		const lines = this.queues.map((q) => q.past.line(now()));
		return {
			ingress: sum((q) => q.ingress_size), transit: sum((q) => q.transit_size), delayed: sum((q) => q.delayed_size),
			escape: sum((q) => q.escape_size), wanted: sum((q) => q.wanted), alive: sum((q) => q.alive),
			...Object.fromEntries(OUTCOMES.map((c) => [c, this.queues.some((q) => this.rate(q, c) !== undefined) ? sum((q) => this.rate(q, c)) : null])),
			line: Array.from({ length: BUCKETS }, (_, i) => lines.reduce((n, l) => n + l[i], 0)),
		};
	}

	/** A link object stands for one state: another object means that the state has changed since. */
	setLink(state, why) {
		const before = this.link.state;
		if (before !== state)
			this.link = { state, since: Date.now(), why };
		this.link.why = why;
		this.dispatchEvent(new Event("link"));
		if (state === "live" && before in AWAY)
			this.dispatchEvent(new Event("back"));
	}
}

export const store = new Store();
