// One dead letter: why it failed, the output of its handler, and the message.
import { deleteDeadLetters, retryDeadLetters } from "./actions.js";
import { get } from "./api.js";
import { h } from "./dom.js";
import { absolute, bytes, duration, time } from "./format.js";
import { preview, viewer } from "./message.js";
import { empty } from "./parts.js";
import { href } from "./route.js";
import { store } from "./store.js";
import { field, visible } from "./visible.js";

const EVERY_MS = 15000;
const TIMES = new Set(["failed_at", "first_failed_at"]);
const APART = new Set(["message", "stderr", "error_message", "error_class"]);
const FIRST = ["record", "id", "queue_from", "failed_at", "first_failed_at", "attempts", "retry_count", "crashes", "exit_code", "signal", "duration_ms",
	"handler", "node", "worker", "request_id", "root", "depth", "traceparent", "size", "sha1"];

const MEANS = {
	Cancelled: "An operator ended its run. The error says who.",
	EmitRefused: "The handler emitted what the configuration or Redis refuses. The error says which.",
	HandlerExit: "The handler ended with an exit status other than 0, and no attempt was left.",
	HandlerFail: "The handler reported that it failed (FAIL), and no attempt was left.",
	HandlerSignal: "A signal killed the handler.",
	HandlerTimeout: "The handler reached its timeout, or max_duration.",
	Rejected: "The handler rejected the message: a retry would not help.",
	Unrepresentable: "The message cannot be given to this handler as an argument.",
	TooLarge: "The message is longer than message_max. No worker fetched it.",
	UnknownSeal: "A line of quredis stands before the message, and no secret in quredis:secret verifies its seal: that key was lost or replaced, the message is of another queue, or a producer forged the line. Restore the key, and retry the message.",
	Undeliverable: "Redis closed the connection each time when it had to send this message.",
	UnknownVersion: "The header of the message has an unknown version.",
	WorkerLost: "Workers died with this message in flight more often than allowed.",
	TTLExpired: "The message waited longer than its TTL.",
	DeadlineExceeded: "The message existed longer than max_message_age, over all its attempts.",
	Purged: "The message waited longer than purge allows.",
	Unrecorded: "It had no record: another program pushed it, or records were off.",
};

function shown(key, record) {
	const value = field(record, key);
	if (value === null || value.text === "")
		return h("span", { class: "muted" }, "–");
	if (TIMES.has(key) && !Number.isNaN(Date.parse(value.text)))
		return [absolute(Date.parse(value.text)), " (", time(value.text), ")"];
	if (key === "duration_ms")
		return duration(record[key]);
	if (key === "size")
		return record[key] < 1024 ? bytes(record[key]) : `${bytes(record[key])} (${record[key]} bytes)`;
	return h("code", null, whole(value));
}

/** All of it: only a page of one dead letter has the room. */
function whole(value) {
	return value === null ? "–" : value.binary ? value.text : visible(value.text);
}

export class RecordPage {
	constructor(route) {
		[, this.queue, this.id] = route.path;
		this.title = `Dead letter ${this.id}`;
		this.abort = new AbortController();
		this.body = h("div", null, h("p", { class: "muted loading" }, "Reading …"));
		this.element = h("div", { class: "page" },
			h("p", { class: "crumbs" }, h("a", { href: href(["dead-letters"]) }, "Dead letters"), " / ", h("a", { href: href(["dead-letters", this.queue]) }, this.queue)), this.body);
		this.reread();
		this.clock = setInterval(() => document.hidden || this.reread(), EVERY_MS);
	}

	/** A record never changes: what is shown stays until it is known to be gone. */
	async reread() {
		try {
			const record = await get("queue/dlq/record", { queue: this.queue, id: this.id }, this.abort.signal);
			if (!this.shown)
				this.#show(record);
			this.shown = true;
		} catch (e) {
			if (!this.abort.signal.aborted && (e.status === 404 || !this.shown))
				this.#showNone(e);
		}
	}

	#showNone(error) {
		this.shown = false;
		this.body.replaceChildren(error.status === 404
			? empty("This dead letter is no longer here", h("p", null, "It was retried, deleted, or removed by the bounds of its queue, or Redis lost its data."), h("p", null, error.message))
			: empty("This dead letter could not be read", h("p", null, error.message)));
	}

	/** It may be one of those that have left. */
	refresh() {
		const size = store.queue(this.queue)?.escape_size ?? null;
		if (this.size !== undefined && size !== this.size)
			this.reread();
		this.size = store.known ? size : undefined;
	}

	#show(record) {
		const error = field(record, "error_message"), message = field(record, "message"), stderr = field(record, "stderr");
		const keys = [...FIRST, ...Object.keys(record).map((k) => k.replace(/_base64$/, ""))]
			.filter((k, i, all) => all.indexOf(k) === i && !APART.has(k) && (k in record || `${k}_base64` in record));
		this.body.replaceChildren(
			h("div", { class: "title" }, h("h1", null, preview(field(record, "error_class"))), h("div", { class: "grow" }),
				h("button", { type: "button", class: "primary", onclick: () => this.#act(retryDeadLetters) }, "Retry"),
				h("button", { type: "button", class: "danger", onclick: () => this.#act(deleteDeadLetters) }, "Delete")),
			h("p", { class: "said-large" }, whole(error)),
			record.error_class ? h("p", { class: "muted" }, MEANS[record.error_class] ?? "The handler named this class.") : "",
			h("div", { class: "record" },
				h("div", null, message && (message.text !== "" || record.size === 0) ? viewer("Message", message)
					: h("p", { class: "notice" }, "The record does not contain the message, because it is larger than dead_letter.payload_max. The whole message is in escape."),
				stderr && stderr.text !== "" ? viewer("End of the handler's stderr", stderr) : h("p", { class: "muted" }, "The handler wrote nothing to stderr.")),
				h("dl", { class: "pairs facts" }, keys.map((k) => [h("dt", null, k.replace(/_ms$/, "").replaceAll("_", " ")), h("dd", null, shown(k, record))]))));
	}

	async #act(action) {
		if (await action(this.queue, [this.id]) !== null && !this.abort.signal.aborted)		// the operator may have left this page
			location.hash = href(["dead-letters", this.queue]);
	}

	close() {
		clearInterval(this.clock);
		this.abort.abort();
	}
}
