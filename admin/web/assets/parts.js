// Parts that several pages share: a strip of figures, the name and health of a queue, an empty list.
import { draw, h, setAttribute, setText } from "./dom.js";
import { count, time } from "./format.js";
import { badge, HEALTH } from "./icons.js";
import { href } from "./route.js";
import { FIGURES } from "./words.js";

/** The title of a column, and its hint, from rows of the table of figures (words.js); between texts of two rows stands how the cell joins them. */
export function column(figure, joint = "", other = { text: "" }) {
	const hint = figure.text + joint + other.text;
	return { title: figure.title, hint: hint[0].toUpperCase() + hint.slice(1) };
}

/** The same as an entry of Figures. */
export function entry(figures, to) {
	const { title, hint } = column(...figures);
	return [title, hint, to];
}

const own = (row, text) => ({ title: row.title, text });

/** Figures that the store calculates from counters and reports of nodes: the row of the same title is that of a health report. */
export const DONE = own(FIGURES.queue["rates.done"], "messages done in the last 60 s");
export const FAILED = own(FIGURES.queue["rates.failed"], "attempts that failed in the last 60 s");
export const WORKERS = [own(FIGURES.queue["workers.alive"], "worker processes in any state, as supervisors report them"), ", of ", FIGURES.host.wanted];

/** Figures side by side: entries [label, hint, href or null]; set([value, …], [level, …]). */
export class Figures {
	constructor(entries) {
		this.values = entries.map(() => h("span", { class: "value" }, "–"));
		this.items = entries.map(([label, hint, to], i) => {
			const text = [this.values[i], h("span", { class: "label" }, label)];
			return h("li", { title: hint }, to ? h("a", { href: to }, text) : text);
		});
		this.element = h("ul", { class: "figures" }, this.items);
	}

	set(values, levels = []) {
		values.forEach((v, i) => {
			setText(this.values[i], typeof v === "string" ? v : count(v));
			setAttribute(this.items[i], "class", levels[i] ? `figure-${levels[i]}` : null);
		});
	}
}

export function queueLink(td, name) {
	draw(td, name, () => h("a", { class: "queue-link", title: name.length > 30 ? name : null, href: href(["queue", name]) }, name));
}

/** The status of a queue with its reasons, for a cell. */
export function healthCell(td, health) {
	const reasons = health?.reasons ?? [];
	draw(td, [health?.status, reasons.map((r) => r.text)], () => (health
		? [badge(HEALTH[health.status] ?? "unknown", health.status, reasons.map((r) => r.text).join("\n")),
			reasons.length > 0 && h("span", { class: "reason" }, reasons[0].text, reasons.length > 1 ? `, and ${reasons.length - 1} more` : "")]
		: h("span", { class: "muted" }, "–")));
}

/** A line of a list of causes: how many, a bar beside the most frequent one, what, and since when. */
export function causeParts(n, most, text, when) {
	const bar = h("span", { class: "cause-bar", "aria-hidden": "true" });
	bar.style.width = `${Math.max(1, (100 * n) / most)}%`;
	return [h("span", { class: "cause-count" }, count(n)), h("span", { class: "cause-text" }, bar, text), h("span", { class: "cause-when muted" }, when && ["last ", time(when)])];
}

/** Why attempts failed, by class, as `stats` and `health` say; the latest error stands with its class. */
export function failureLines({ classes = {}, latest } = {}) {
	const all = Object.entries(classes).sort((a, b) => b[1] - a[1]), most = Math.max(1, ...all.map(([, n]) => n));
	return all.map(([name, n]) => h("li", null, h("div", null, name === latest?.class
		? causeParts(n, most, latest.error ? `${name}: ${latest.error}` : name, latest.at) : causeParts(n, most, name, null))));
}

export function empty(title, ...rest) {
	return h("div", { class: "empty" }, h("h2", null, title), rest);
}

/** For a queue that is not in Redis. seen: the page has shown it. */
export function noQueue(name, seen) {
	return empty(seen ? `The queue ${name} is gone` : `There is no queue ${name}`, h("p", null, seen
		? "This page has shown it before: the queue was destroyed, Redis lost its data, or the console now uses another Redis. The page offers no actions on it."
		: "It was destroyed, or no supervisor ever served it. A push does not create a queue."), h("a", { href: "#/" }, "All queues"));
}

export function command(text) {
	return h("code", { class: "command" }, text);
}

/** A line with the error of a part of a page; empty: no error. */
export function notice() {
	return h("p", { class: "notice", role: "status" });
}

export function setNotice(node, text) {
	setText(node, text);
	node.hidden = !text;
}

/** Repeats a request while the page is open and visible, one at a time. */
export class Poll {
	constructor(ask, every_ms) {
		this.abort = new AbortController();
		this.ask = ask;
		this.every_ms = every_ms;
		this.#turn();
	}

	async #turn() {
		if (this.abort.signal.aborted)
			return;
		if (!document.hidden)
			await this.now();
		this.timer = setTimeout(() => this.#turn(), this.every_ms);
	}

	async now() {
		if (this.busy)
			return;
		this.busy = true;
		try {
			await this.ask(this.abort.signal);
		} catch (e) {
			if (!this.abort.signal.aborted)
				throw e;
		} finally {
			this.busy = false;
		}
	}

	stop() {
		this.abort.abort();
		clearTimeout(this.timer);
	}
}
