// Which worker runs which message for how long, over all queues and hosts.
import { get } from "./api.js";
import { draw, h, setText } from "./dom.js";
import { count, now, plural, progressText, setElapsed } from "./format.js";
import { badge } from "./icons.js";
import { messagePreview } from "./message.js";
import { hostCell, hostOf, openMessage } from "./messages.js";
import { empty, notice, Poll, queueLink, setNotice } from "./parts.js";
import { store } from "./store.js";
import { Table, textCell } from "./table.js";
import { field } from "./visible.js";

const EVERY_MS = 2000;
const QUEUES_AT_ONCE = 12;
const OF_A_QUEUE = 100;

const COLUMNS = [
	{ id: "elapsed", title: "Elapsed", css: "number", value: (m) => (m.started_at === null ? -Infinity : -m.started_at), first: "down",
		cell: (td, m) => setElapsed(td, m.started_at) },
	{ id: "queue", title: "Queue", header: true, value: (m) => m.queue, cell: (td, m) => queueLink(td, m.queue) },
	{ id: "message", title: "Message", css: "message", cell: (td, m) => draw(td, messagePreview(m.message_value), () =>
		h("button", { type: "button", class: "linkish", onclick: () => openMessage(m.queue, { ...m, value: m.message_value }, "transit") }, messagePreview(m.message_value))) },
	{ id: "progress", title: "Progress", css: "long", hint: "As the handler reports it, every ten seconds", value: (m) => m.progress?.percent ?? -1, first: "down",
		cell: textCell((m) => progressText(m.progress)) },
	{ id: "owner", title: "Worker", value: (m) => (m.alive ? "alive" : "dead"), cell: (td, m) => draw(td, [m.alive, m.worker], () =>
		(m.worker === null ? badge("unknown", "bare list", "In the bare list of a consumer outside quredis, such as a program with the Ruby gem")
			: m.alive ? badge("run", "alive", m.worker) : badge("warn", "dead", `${m.worker}: the sweeper returns its messages`))) },
	{ id: "pid", title: "Pid", css: "number second", value: (m) => m.pid, cell: textCell((m) => m.pid ?? "–") },
	{ id: "host", title: "Host", css: "host second", value: (m) => hostOf(m.worker), cell: (td, m) => hostCell(td, hostOf(m.worker)) },
	{ id: "attempts", title: "Attempts", css: "number third", hint: "Failed attempts", value: (m) => m.attempts, cell: textCell((m) => count(m.attempts)) },
	{ id: "worker", title: "Incarnation", css: "id third", cell: textCell((m) => m.worker ?? "–") },
];

/** When each incarnation started its handler, and the progress of that, from the report of its node. */
function runs() {
	const known = new Map();
	for (const node of store.nodes)
		for (const run of node.running ?? [])
			known.set(run.incarnation, { began_at: node.at_ms - run.running_ms, progress: run.progress ?? null });
	return known;
}

/** null: not known here. */
function beginOf(message) {
	return message.elapsed_ms === null || message.elapsed_ms === undefined ? null : now() - message.elapsed_ms;
}

export class FlightPage {
	title = "In flight";
	messages = [];		// as they were read last

	constructor() {
		this.sum = h("span", { class: "muted", role: "status" });
		this.notice = notice();
		this.table = new Table({ name: "flight", caption: "Messages in flight", columns: COLUMNS, key: (m) => m.key, sort: ["elapsed", "down"] });
		this.rest = h("div");
		this.element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", null, "In flight"), this.sum), this.notice, this.table.element, this.rest);
		this.table.element.hidden = true;
		this.poll = new Poll((signal) => this.#ask(signal), EVERY_MS);
	}

	/** Reads the queues that have messages in flight according to the stream. Of a queue that cannot be read, those known before stay. */
	async #ask(signal) {
		if (!store.known)
			return this.#showRest();
		const busy = store.queues.filter((q) => q.transit_size > 0).sort((a, b) => b.transit_size - a.transit_size);
		const asked = busy.slice(0, QUEUES_AT_ONCE);
		const answers = await Promise.allSettled(asked.map((q) =>
			get("queue/messages", { queue: q.name, list: "transit", limit: OF_A_QUEUE }, signal)));
		if (signal.aborted)
			return;
		const failed = answers.find((a) => a.status === "rejected");
		setNotice(this.notice, failed ? `Some queues could not be read: ${failed.reason.message}`
			: busy.length > asked.length ? `Showing the ${asked.length} queues with the most messages in flight; ${busy.length - asked.length} other queues have some, too.` : "");
		this.messages = answers.flatMap((a, i) => (a.status === "fulfilled" ? a.value.map((m) => ({ ...m, queue: asked[i].name, began_at: beginOf(m) }))
			: this.messages.filter((m) => m.queue === asked[i].name)));
		this.loaded ||= asked.length === 0 || answers.some((a) => a.status === "fulfilled");
		this.#show();
	}

	#show() {
		const running = runs(), seen = new Map();
		const rows = this.messages.map((m) => {
			const name = [m.queue, m.worker, m.id].join(" ");
			seen.set(name, (seen.get(name) ?? 0) + 1);
			return { ...m, key: `${name} ${seen.get(name)}`, message_value: field(m, "message"),
				started_at: m.began_at ?? running.get(m.worker)?.began_at ?? null,
				progress: running.get(m.worker)?.progress ?? null };
		});
		this.table.element.hidden = rows.length === 0;
		this.table.update(rows);
		setText(this.sum, plural(rows.length, "message"));
		this.#showRest();
	}

	#showRest() {
		const n = this.messages.length;
		draw(this.rest, [this.loaded, n === 0], () => (!this.loaded ? h("p", { class: "muted loading" }, "Reading from Redis …") : n === 0
			? empty("Nothing is in flight", h("p", null, "No worker has a message now. Messages that take only a moment seldom appear here."))
			: null));
	}

	refresh() {
		if (!this.loaded && store.known)
			this.poll.now();
	}

	close() {
		this.poll.stop();
	}
}
