// The records of a queue's dead letters that were read so far, page by page. The server decides which of them match the filter, and counts them.
import { get, getWithNote } from "./api.js";

const PAGE = 50;
const AGAIN_MOST = 200;
const MORE_MOST = 1000;

/** The parameters of a filter, as of the API and the command line. */
export const FILTER = ["class", "cause", "text", "exit", "worker", "root", "since", "until"];

/** Record ids are times of Redis: "1795299885431-1". */
function byId(a, b) {
	const [at, an] = a.split("-").map(Number), [bt, bn] = b.split("-").map(Number);
	return bt - at || bn - an;
}

export class DeadLetters {
	constructor(queue) {
		this.queue = queue;
		this.records = [];
		this.complete = false;
		this.filter = {};
		this.abort = new AbortController();
	}

	#key() {
		return JSON.stringify(this.filter);
	}

	/** Returns true if the filter has changed. Then it drops the records that were read. */
	setFilter(filter) {
		const wanted = Object.fromEntries(FILTER.map((name) => [name, filter[name] ?? ""]).filter(([, value]) => value !== ""));
		if (JSON.stringify(wanted) === this.#key())
			return false;
		this.filter = wanted;
		this.records = [];
		this.complete = false;
		return true;
	}

	filtered() {
		return Object.keys(this.filter).length > 0;
	}

	async #read(params) {
		return get("queue/dlq", { queue: this.queue, ...this.filter, ...params }, this.abort.signal);
	}

	/** Counts by class, by cause and by hour, of those that match, or of all; at most limit of each. more: how many are left out, {cause: 648}. */
	async stats(limit, all) {
		const { document, note } = await getWithNote("queue/dlq/stats", { queue: this.queue, limit, ...(all ? {} : this.filter) }, this.abort.signal);
		return { rows: document, more: Object.fromEntries([...note.matchAll(/(?:^|;)(\d+) more by (\w+)/g)].map(([, n, by]) => [by, Number(n)])) };
	}

	/** Runs requests one after the other: the start of a page is known only when the page before has been read. */
	#inTurn(read) {
		const of = this.#key();
		this.turn = (this.turn ?? Promise.resolve()).catch(() => null).then(() => (of === this.#key() ? read() : null));
		return this.turn;
	}

	/** Reads the newest page again; older records stay as they were read, unless anew: then all of them are read again. */
	again(anew = false) {
		return this.#inTurn(async () => {
			const of = this.#key(), limit = Math.min(anew ? MORE_MOST : AGAIN_MOST, Math.max(PAGE, this.records.length));
			const fresh = await this.#read({ limit });
			if (of !== this.#key())
				return;
			const whole = fresh.length < limit, last = fresh.at(-1)?.record;
			const behind = whole || anew ? [] : this.records.filter((r) => byId(r.record, last) > 0);
			this.complete = whole || (this.complete && behind.length > 0);
			this.records = [...fresh, ...behind];
		});
	}

	/** Each page has as many as were read before, three times. */
	more() {
		const limit = Math.max(PAGE, Math.min(MORE_MOST, 3 * this.records.length));
		return this.#inTurn(async () => {
			const of = this.#key();
			const next = await this.#read({ limit, before: this.records.at(-1)?.record });
			if (of !== this.#key())
				return;
			this.complete = next.length < limit;
			this.records = [...this.records, ...next];
		});
	}

	close() {
		this.abort.abort();
	}
}
