// The records of a queue's dead letters that were read so far, page by page. The server filters by class; this file filters by cause
// and text.
import { get } from "./api.js";
import { causeOf } from "./cause.js";
import { field } from "./visible.js";

const PAGE = 50;
const AGAIN_MOST = 200;
const SEARCH_PAGE = 500;
const SEARCH_MOST = 5000;

/** Record ids are times of Redis: "1795299885431-1". */
function byId(a, b) {
	const [at, an] = a.split("-").map(Number), [bt, bn] = b.split("-").map(Number);
	return bt - at || bn - an;
}

export class Letters {
	constructor(queue) {
		this.queue = queue;
		this.records = [];
		this.complete = false;
		this.filter = { class: "", cause: "", text: "" };
		this.abort = new AbortController();
	}

	/** true: the records that were read are obsolete. */
	setFilter(filter) {
		const other = filter.class !== this.filter.class;
		this.filter = filter;
		if (other) {
			this.records = [];
			this.complete = false;
		}
		return other;
	}

	shown() {
		const words = this.filter.text.toLowerCase().split(/\s+/).filter((w) => w !== "");
		return this.records.filter((r) => (!this.filter.cause || known(r).cause === this.filter.cause) && words.every((w) => known(r).text.includes(w)));
	}

	narrowed() {
		return this.filter.cause !== "" || this.filter.text.trim() !== "";
	}

	async #read(params) {
		return get("queue/dlq", { queue: this.queue, class: this.filter.class, ...params }, this.abort.signal);
	}

	/** Runs requests one after the other: the start of a page is known only when the page before has been read. */
	#inTurn(read) {
		const of = this.filter.class;
		this.turn = (this.turn ?? Promise.resolve()).catch(() => null).then(() => (of === this.filter.class ? read() : null));
		return this.turn;
	}

	/** Reads the newest page again; older records stay as they were read. */
	again() {
		return this.#inTurn(async () => {
			const of = this.filter.class, limit = Math.min(AGAIN_MOST, Math.max(PAGE, this.records.length));
			const fresh = await this.#read({ limit });
			if (of !== this.filter.class)
				return;
			const whole = fresh.length < limit, last = fresh.at(-1)?.record;
			const behind = whole ? [] : this.records.filter((r) => byId(r.record, last) > 0);
			this.complete = whole || (this.complete && behind.length > 0);
			this.records = [...fresh, ...behind];
		});
	}

	more(limit = PAGE) {
		return this.#inTurn(async () => {
			const of = this.filter.class;
			const next = await this.#read({ limit, before: this.records.at(-1)?.record });
			if (of !== this.filter.class)
				return;
			this.complete = next.length < limit;
			this.records = [...this.records, ...next];
		});
	}

	/** Reads on until all, or very many, are read. heard() shows the records so far; if it returns false, reading stops. */
	async search(heard) {
		const until = this.records.length + SEARCH_MOST;
		while (!this.complete && this.records.length < until && heard())
			await this.more(SEARCH_PAGE);
		heard();
	}

	remove(ids) {
		this.records = this.records.filter((r) => !ids.has(r.record));
	}

	close() {
		this.abort.abort();
	}
}

const seen = new WeakMap();

/** The text of a record that a search looks at; computed once. */
function known(record) {
	if (!seen.has(record))
		seen.set(record, { cause: causeOf(record, field(record, "error_message")?.bytes ?? []),
			text: Object.values(record).filter((v) => typeof v === "string").join("\n").toLowerCase() });
	return seen.get(record);
}
