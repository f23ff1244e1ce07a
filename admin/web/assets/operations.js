// The long work on dead letters that is not complete: how far it is, who gave it, and a button that stops it.
import { stopOperation } from "./actions.js";
import { get } from "./api.js";
import { draw, h, setText } from "./dom.js";
import { count, time } from "./format.js";
import { badge } from "./icons.js";
import { notice, Poll, queueLink, setNotice } from "./parts.js";
import { Table, textCell } from "./table.js";
import { field, visibleLine } from "./visible.js";
import { OPERATION_STATES as STATES } from "./words.js";

const EVERY_MS = 2000, EVERY_MS_OF_ALL = 10000;		// of all queues, each is asked
const textOf = (operation, name) => visibleLine(field(operation, name)?.text ?? "–");

function showState(td, o) {
	const error = field(o, "error");
	draw(td, [o.state, error], () => [badge(error ? "warn" : STATES[o.state]?.level ?? "unknown", o.state, STATES[o.state]?.text), error && h("span", { class: "reason" }, visibleLine(error.text))]);
}

/** queue: null for all. */
export class Operations {
	constructor(queue) {
		this.queue = queue;
		this.notice = notice();
		this.table = new Table({ name: "operations", caption: "Operations", columns: this.#columns(), key: (o) => `${o.queue} ${o.id}` });
		this.element = h("section", { class: "operations" }, h("h2", null, "Operations"), this.notice, this.table.element);
		this.element.hidden = true;
		this.poll = new Poll((signal) => this.#ask(signal), queue ? EVERY_MS : EVERY_MS_OF_ALL);
	}

	#columns() {
		return [
			{ id: "operation", title: "Operation", header: true, css: "long", cell: (td, o) => setText(td, textOf(o, "operation")) },
			...(this.queue ? [] : [{ id: "queue", title: "Queue", cell: (td, o) => queueLink(td, o.queue) }]),
			{ id: "state", title: "State", css: "reasons", cell: showState },
			{ id: "done", title: "Done", css: "number", cell: textCell((o) => `${count(o.done)}${o.total === null ? "" : ` of ${count(o.total)}`}`) },
			{ id: "begun", title: "Begun", css: "time", cell: (td, o) => draw(td, [o.begun_at], () => time(o.begun_at)) },
			{ id: "by", title: "By", css: "second", cell: (td, o) => setText(td, textOf(o, "by")) },
			{ id: "process", title: "Process", css: "third", hint: "Host and pid of the process that works on it", cell: (td, o) => setText(td, textOf(o, "process")) },
			{ id: "act", title: "", label: "Actions", css: "acts", cell: (td, o) => draw(td, STATES[o.state]?.can_stop, () => STATES[o.state]?.can_stop
				&& h("button", { type: "button", class: "small", "aria-label": `Stop ${o.id}`, onclick: () => this.#stop(o) }, "Stop")) },
		];
	}

	async #ask(signal) {
		try {
			const rows = await get("operations", { queue: this.queue }, signal);
			setNotice(this.notice, "");
			this.element.hidden = rows.length === 0;
			this.table.update(rows);
		} catch (e) {
			if (!signal.aborted)
				setNotice(this.notice, `Reading the operations failed: ${e.message}`);
		}
	}

	async #stop(operation) {
		if (await stopOperation(operation.queue, operation.id, textOf(operation, "operation")) !== null)
			await this.poll.now();
	}

	close() {
		this.poll.stop();
	}
}
