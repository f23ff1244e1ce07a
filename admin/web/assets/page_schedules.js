// The schedules of the configuration that the console read: their ticks, and a message now.
import { runSchedule } from "./actions.js";
import { get } from "./api.js";
import { draw, h } from "./dom.js";
import { count, setTime } from "./format.js";
import { command, empty, notice, Poll, queueLink, setNotice } from "./parts.js";
import { Table, textCell } from "./table.js";

const EVERY_MS = 5000;

function timeCell(of) {
	return (td, row) => {
		if (!td.firstChild)
			td.append(document.createElement("time"));
		setTime(td.firstChild, of(row));
	};
}

const columns = (run) => [
	{ id: "name", title: "Schedule", header: true, value: (s) => s.name, cell: textCell((s) => s.name) },
	{ id: "queue", title: "Queue", value: (s) => s.queue, cell: (td, s) => queueLink(td, s.queue) },
	{ id: "times", title: "Times", cell: textCell((s) => s.times) },
	{ id: "timezone", title: "Zone", css: "second", value: (s) => s.timezone, cell: textCell((s) => s.timezone) },
	{ id: "last", title: "Last", css: "time", hint: "The last tick that was pushed", cell: timeCell((s) => s.last) },
	{ id: "next", title: "Next", css: "time", value: (s) => s.next?.[0] ?? "", cell: timeCell((s) => s.next?.[0] ?? null) },
	{ id: "missed", title: "Missed", css: "number second", hint: "Ticks that were late, and that catch_up did not push", value: (s) => s.missed, first: "down",
		cell: textCell((s) => (s.missed === null ? "–" : count(s.missed))) },
	{ id: "skipped", title: "Skipped", css: "number second", hint: "Ticks at which an earlier message was in the queue (overlap = false)", value: (s) => s.skipped, first: "down",
		cell: textCell((s) => (s.skipped === null ? "–" : count(s.skipped))) },
	{ id: "run", title: "Message", cell: (td, s) => draw(td, [s.name], () => h("button", { type: "button", onclick: () => run(s) }, "Run now")) },
];

export class SchedulesPage {
	title = "Schedules";

	constructor() {
		this.table = new Table({ name: "schedules", caption: "Schedules", columns: columns((s) => this.#run(s)), key: (s) => s.name });
		this.none = h("div");
		this.notice = notice();
		this.element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", null, "Schedules")), this.none, this.notice, this.table.element);
		this.table.element.hidden = true;
		this.poll = new Poll((signal) => this.#ask(signal), EVERY_MS);
	}

	async #ask(signal) {
		try {
			const all = await get("schedules", null, signal);
			const unread = all.filter((s) => s.known === null).map((s) => s.name), unknown = all.filter((s) => s.known === false).map((s) => s.name);
			setNotice(this.notice, unread.length > 0 ? `Redis does not tell the ticks of ${unread.join(", ")}; quredis doctor says why.` :
				unknown.length === 0 ? "" : `Redis knows no ticks of ${unknown.join(", ")}: no supervisor has begun them, or with other times; quredis doctor says more.`);
			draw(this.none, [all.length], () => (all.length === 0 ? empty("No schedules", h("p", null, "The configuration that the console read has none:"), command("man quredis.conf")) : null));
			this.table.element.hidden = all.length === 0;
			this.table.update(all);
		} catch (e) {
			if (!signal.aborted)
				setNotice(this.notice, `The schedules could not be read: ${e.message}`);
		}
	}

	async #run(schedule) {
		if (await runSchedule(schedule) !== null)
			this.poll.now();
	}

	reread() {
		this.poll.now();
	}

	close() {
		this.poll.stop();
	}
}
