// The messages of one list of a queue, from `quredis peek` or `quredis done ls`, and a dialog for one message.
import { cancelMessage, deleteMessage, runNext } from "./actions.js";
import { getWithNote } from "./api.js";
import { showDialog } from "./dialogs.js";
import { draw, h, setText } from "./dom.js";
import { bytes, count, duration, now, setElapsed, setTime } from "./format.js";
import { messagePreview, preview, viewer } from "./message.js";
import { command } from "./parts.js";
import { Table, textCell } from "./table.js";
import { field } from "./visible.js";

export const LISTS = [["ingress", "Waiting"], ["transit", "In flight"], ["delayed", "Delayed"], ["escape", "Dead letters"], ["done", "Done"]];

const PAGE = 50;
const MOST = 1000;
const AGAIN_MS = 1500;
const EVERY_MS = 15000;		// other messages may be there although the size is the same
const TYPED_MS = 300;

const EMPTY = {
	ingress: (queue) => [h("p", null, "No messages are waiting."), command(`quredis push ${queue} 'a message'`)],
	transit: () => h("p", null, "No messages are in flight."),
	delayed: () => h("p", null, "No messages are delayed."),
	escape: () => h("p", null, "This queue has no dead letters."),
	done: () => [h("p", null, "This queue keeps no history. To keep one, add to its configuration:"), command("done = { keep = 1000; };")],
};

function timeCell(of) {
	return (td, row) => {
		if (!td.firstChild)
			td.append(document.createElement("time"));
		setTime(td.firstChild, of(row));
	};
}

/** The node: all of an incarnation except its last three parts. */
export function hostOf(worker) {
	return worker ? worker.split(".").slice(0, -3).join(".") : "–";
}

/** A long name is cut, and whole in the tooltip. */
export function hostCell(td, host) {
	setText(td, host ?? "–");
	td.title = host ?? "";
}

/** Why the last attempt failed, as one line; null: no attempt has failed, or the cause was not kept. */
function lastFailure(m) {
	return m.failed_at ? [m.error_class, field(m, "error_message")].filter(Boolean).map((part) => (part.text === undefined ? part : preview(part))).join(": ") : null;
}

function columns(list, open) {
	const own = {
		ingress: [{ id: "since", title: "Waiting since", css: "time", cell: timeCell((m) => m.waiting_since) }],
		transit: [
			{ id: "elapsed", title: "Elapsed", css: "number", cell: (td, m) => setElapsed(td, m.started_at ?? null) },
			{ id: "pid", title: "Pid", css: "number second", cell: textCell((m) => m.pid ?? "–") },
			{ id: "host", title: "Host", css: "host second", cell: (td, m) => hostCell(td, hostOf(m.worker)) },
			{ id: "owner", title: "Worker", css: "long second", cell: textCell((m) => (m.worker === null ? "–" : m.alive ? "alive" : "dead: the sweeper returns its messages")) }],
		delayed: [{ id: "due", title: "Due", css: "time", cell: timeCell((m) => m.due) },
			{ id: "why", title: "Last failure", css: "error second", cell: (td, m) => { setText(td, lastFailure(m) ?? "–"); td.title = lastFailure(m) ?? ""; } }],
		escape: [],
		done: [{ id: "finished", title: "Finished", css: "time", cell: timeCell((m) => m.finished_at) },
			{ id: "took", title: "Took", css: "number", cell: textCell((m) => duration(m.duration_ms)) },
			{ id: "node", title: "Host", css: "host second", cell: (td, m) => hostCell(td, m.node) }],
	}[list];
	return [
		{ id: "message", title: "Message", header: true, css: "message", cell: (td, m) => draw(td, messagePreview(m.value), () =>
			h("button", { type: "button", class: "linkish", onclick: () => open(m) }, list === "done" && m.value?.text === "" ? "(not kept)" : messagePreview(m.value))) },
		...own,
		...(list === "escape" ? [] : [{ id: "attempts", title: "Attempts", css: "number", hint: "Failed attempts", cell: textCell((m) => count(m.attempts)) }]),
		{ id: "size", title: "Size", css: "number second", cell: textCell((m) => bytes(m.size)) },
		{ id: "id", title: "Id", css: "id third", cell: (td, m) => { setText(td, m.id); td.title = m.id; } },
	];
}

/** Equal messages have equal ids, so a key also has the number of the copy, counted from the end that does not move. */
function withKeys(rows) {
	const seen = new Map();
	return rows.toReversed().map((m) => {
		const name = m.entry ?? [m.worker, m.due, m.id].join(" ");
		seen.set(name, (seen.get(name) ?? 0) + 1);
		return { ...m, value: field(m, "message"), key: `${name} ${seen.get(name)}`,
			started_at: m.elapsed_ms === null || m.elapsed_ms === undefined ? null : now() - m.elapsed_ms };
	}).toReversed();
}

/** Buttons for one message that waits, is delayed, or is in flight. changed: is called when the action is done. */
function actions(queue, list, message, changed) {
	const runs = list === "transit" && Boolean(message.worker);
	if ((!runs && !["ingress", "delayed"].includes(list)) || message.id === null)
		return null;
	const act = (action) => async () => {
		if (await action(queue, list, message.id) !== null)
			changed();
	};
	const cancel = (again) => async () => {
		if (await cancelMessage(queue, message.id, message.worker, again) !== null)
			changed();
	};
	if (runs)
		return h("div", { class: "buttons" }, h("button", { type: "button", onclick: cancel(true) }, "End and run again…"),
			h("button", { type: "button", class: "danger", onclick: cancel(false) }, "Cancel…"));
	return h("div", { class: "buttons" },
		h("button", { type: "button", onclick: act(runNext) }, "Run next…"), h("button", { type: "button", class: "danger", onclick: act(deleteMessage) }, "Delete…"));
}

/** list: where it is, so that it can be acted on; changed: is called after an action. Both may be missing. */
export function openMessage(queue, message, list = null, changed = () => {}) {
	const shown = { ...message, last_failure: lastFailure(message) };
	const facts = ["id", "size", "attempts", "crashes", "redelivered", "waiting_since", "due", "failed_at", "exit_code", "signal", "last_failure", "finished_at",
		"duration_ms", "worker", "pid"].filter((k) => shown[k] !== null && shown[k] !== undefined);
	const dialog = h("dialog", { class: "wide", "aria-label": `A message of ${queue}` },
		h("form", { method: "dialog" },
			h("div", { class: "title" }, h("h2", null, `A message of ${queue}`), h("div", { class: "grow" }), h("button", { value: "", autofocus: true }, "Close")),
			message.value && viewer(message.cut ? `The first ${bytes(message.value.bytes.length)} of ${bytes(message.size)}` : "Message", message.value, "h3"),
			h("dl", { class: "pairs wide-pairs" }, facts.map((k) => [h("dt", null, k.replaceAll("_", " ")), h("dd", null, String(shown[k]))])),
			actions(queue, list, message, () => {
				dialog.close();
				changed();
			})));
	showDialog(dialog);
}

export class MessageList {
	constructor(queue, list, on_error) {
		Object.assign(this, { queue, list, on_error, limit: PAGE, abort: new AbortController() });
		this.table = new Table({ name: `messages-${list}`, caption: `Messages in ${list} of ${queue}`, key: (m) => m.key,
			columns: columns(list, (m) => openMessage(queue, m, list, () => this.reload())) });
		this.foot = h("div", { class: "foot" });
		this.search = h("input", { type: "search", placeholder: "Search messages, ids, errors", "aria-label": `Search in ${list}`, oninput: () => this.#typed() });
		this.element = h("div", null, list !== "done" && h("div", { class: "tools" }, this.search), this.table.element, this.foot);
		this.table.element.hidden = true;
		this.turn = 0;
		this.reload();
		this.clock = setInterval(() => document.hidden || this.reload(), EVERY_MS);
	}

	/** Receives the size at each event. Reads the list again when the size changes (transit: always), but not too often. */
	changed(size) {
		const same = size === this.size && this.list !== "transit";
		this.size = size;
		if (same || this.timer || (this.list === "transit" && size === 0 && this.table.rows.length === 0))
			return this.#showFoot();
		this.timer = setTimeout(() => {
			this.timer = null;
			this.reload();
		}, AGAIN_MS - Math.min(AGAIN_MS, performance.now() - (this.asked_at ?? 0)));
	}

	async reload() {
		this.asked_at = performance.now();
		const turn = ++this.turn;
		try {
			const text = this.search.value.trim();
			const { document, note } = await this.#ask(text);
			if (turn !== this.turn || text !== this.search.value.trim())
				return;		// there is a later request, or the user types on and will ask again
			this.found = text === "" ? null : note;
			this.on_error("");
			this.#show(document);
		} catch (e) {
			if (!this.abort.signal.aborted && turn === this.turn)
				this.on_error(`The list could not be read: ${e.message}`);
		}
	}

	#typed() {
		clearTimeout(this.typing);
		this.typing = setTimeout(() => this.reload(), TYPED_MS);
	}

	#ask(text) {
		const { queue, list, limit } = this;
		return list === "done" ? getWithNote("queue/done", { queue, limit }, this.abort.signal)
			: getWithNote("queue/messages", { queue, list, limit, text }, this.abort.signal);
	}

	#show(rows) {
		this.loaded = true;
		this.table.element.hidden = rows.length === 0;
		this.table.update(withKeys(rows));
		this.#showFoot();
	}

	#showFoot() {
		const n = this.table.rows.length;
		draw(this.foot, [this.loaded, n, this.size, this.found], () => {
			if (!this.loaded)
				return h("p", { class: "muted loading" }, "Reading …");
			if (this.found)
				return [h("span", { class: "muted", role: "status" }, this.found), n === this.limit && this.limit < MOST && this.#moreButton()];
			if (n === 0)
				return h("div", { class: "empty" }, EMPTY[this.list](this.queue));
			const history = this.list === "done";
			// the server stops after 64 MiB
			if (!history && n < Math.min(this.limit, this.size))
				return h("span", { class: "muted" }, `The ${this.list === "delayed" ? "next" : "newest"} ${count(n)} of ${count(this.size)}; the others are not read because the messages are too large`);
			const more = (history ? n === this.limit : this.size > n) && this.limit < MOST;
			return [h("span", { class: "muted" }, `The ${this.list === "delayed" ? "next" : "newest"} ${count(n)}${this.size > n && !history ? ` of ${count(this.size)}` : ""}`),
				more && this.#moreButton()];
		});
	}

	#moreButton() {
		return h("button", { type: "button", onclick: () => this.#more() }, "Show more");
	}

	#more() {
		this.limit = Math.min(MOST, this.limit * 4);
		this.reload();
	}

	close() {
		this.abort.abort();
		clearInterval(this.clock);
		clearTimeout(this.timer);
		clearTimeout(this.typing);
	}
}
