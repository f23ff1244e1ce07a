// The records of a queue's dead letters that have been read so far: page by page, by class at the server, by cause
// and text here.
import { get } from "./api.js";

const PAGE = 50;
const AGAIN_MOST = 200;
const SEARCH_PAGE = 500;
const SEARCH_MOST = 5000;

/** Record ids are times of Redis: "1795299885431-1". */
function byId(a, b) {
	const [at, an] = a.split("-").map(Number), [bt, bn] = b.split("-").map(Number);
	return bt - at || bn - an;
}

/** What `dlq stats` calls the cause of a record, with # for each number and id in it, as a pattern. */
function patternOf(cause) {
	const text = cause.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("#", "[0-9A-Fa-f-]+");
	return new RegExp(`^${text}`);
}

/** The cause of a record before numbers were taken out. */
function described(r) {
	const line = (r.error_message ?? "").split("\n")[0].replace(/\s/g, " ");
	return (r.error_class || "?") + (r.exit_code === null || r.exit_code === undefined ? "" : ` exit ${r.exit_code}`) +
		(r.signal ? ` ${r.signal}` : "") + (line === "" ? "" : `: ${line}`);
}

export class Letters {
	constructor(queue) {
		this.queue = queue;
		this.records = [];
		this.complete = false;
		this.filter = { class: "", cause: "", text: "" };
		this.abort = new AbortController();
	}

	/** true: what was read is of no use any more. */
	setFilter(filter) {
		const other = filter.class !== this.filter.class;
		this.filter = filter;
		this.pattern = filter.cause ? patternOf(filter.cause) : null;
		if (other) {
			this.records = [];
			this.complete = false;
		}
		return other;
	}

	shown() {
		const words = this.filter.text.toLowerCase().split(/\s+/).filter((w) => w !== "");
		return this.records.filter((r) => (!this.pattern || this.pattern.test(described(r))) && words.every((w) => textOf(r).includes(w)));
	}

	narrowed() {
		return this.pattern !== null && this.pattern !== undefined || this.filter.text.trim() !== "";
	}

	async #read(params) {
		return get("queue/dlq", { queue: this.queue, class: this.filter.class, ...params }, this.abort.signal);
	}

	/** Anew from the newest; what lies behind it stays as it was read. */
	async again() {
		const limit = Math.min(AGAIN_MOST, Math.max(PAGE, this.records.length)), of = this.filter.class;
		const fresh = await this.#read({ limit });
		if (of !== this.filter.class)
			return;
		const whole = fresh.length < limit;
		const last = fresh.at(-1)?.record;
		const behind = whole ? [] : this.records.filter((r) => byId(r.record, last) > 0);
		this.complete = whole || (this.complete && behind.length > 0);
		this.records = [...fresh, ...behind];
	}

	async more(limit = PAGE) {
		const of = this.filter.class;
		const next = await this.#read({ limit, before: this.records.at(-1)?.record });
		if (of !== this.filter.class)
			return;
		this.complete = next.length < limit;
		this.records = [...this.records, ...next];
	}

	/** Reads on until all are read, or a great many; heard(): shows what is there, false: stop. */
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

const texts = new WeakMap();

function textOf(record) {
	if (!texts.has(record))
		texts.set(record, Object.values(record).filter((v) => typeof v === "string").join("\n").toLowerCase());
	return texts.get(record);
}
