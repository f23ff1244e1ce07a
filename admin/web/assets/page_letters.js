// Dead letters by queue, cause and class. The user retries or deletes one, the selected ones, or all.
import { deleteAllLetters, deleteLetters, retryAllLetters, retryLetters } from "./actions.js";
import { get } from "./api.js";
import { draw, h, setAttribute, setText } from "./dom.js";
import { bytes, count, plural, setTime, time } from "./format.js";
import { Letters } from "./letters.js";
import { preview } from "./message.js";
import { empty, notice, setNotice } from "./parts.js";
import { href } from "./route.js";
import { store } from "./store.js";
import { Table, textCell } from "./table.js";
import { field, visibleLine } from "./visible.js";

const AGAIN_MS = 2000;
const CAUSES_SHOWN = 8;

function errorOf(record) {
	const value = field(record, "error_message");
	return value === null || value.text === "" ? "(no error text)" : visibleLine(value.text);
}

/** A cause begins with its class; "?" means no class. */
function classOf(cause) {
	return cause.split(/[ :]/)[0].replace("?", "");
}

export class LettersPage {
	constructor(route) {
		this.queue = route.path[1] ?? null;
		this.title = this.queue ? `Dead letters of ${this.queue}` : "Dead letters";
		this.choice = h("nav", { class: "choice", "aria-label": "Queues with dead letters" });
		this.element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", null, "Dead letters")), this.choice);
		this.rest = h("div");
		this.element.append(this.rest);
		if (this.queue)
			this.#makeList(route);
	}

	#makeList(route) {
		this.letters = new Letters(this.queue);
		this.causes = h("section", { class: "causes", "aria-label": "Causes" });
		this.kind = h("select", { "aria-label": "Class", onchange: () => this.#narrow({ class: this.kind.value, cause: "" }) });
		this.search = h("input", { type: "search", placeholder: "Search errors, ids, workers", "aria-label": "Search", oninput: () => this.#searched() });
		this.marks = h("div", { class: "marks", role: "group", "aria-label": "Selected dead letters" });
		this.tools = h("div", { class: "tools" }, this.kind, this.search, this.found = h("span", { class: "muted", role: "status" }), h("div", { class: "grow" }), this.marks);
		this.notice = notice();
		this.table = new Table({ name: "letters", caption: `Dead letters of ${this.queue}`, columns: this.#columns(), key: (r) => r.record,
			selectable: true, on_select: (marked) => this.#showMarks(marked) });
		this.foot = h("div", { class: "foot" });
		this.list = h("div", { class: "letters-list" }, this.causes, this.tools, this.notice, this.table.element, this.foot);
		this.element.append(this.list);
		this.go(route);
	}

	#columns() {
		return [
			{ id: "failed", title: "Failed", css: "time", cell: (td, r) => {
				if (!td.firstChild)
					td.append(time(r.failed_at));
				setTime(td.firstChild, r.failed_at);
			} },
			{ id: "error", title: "Error", header: true, css: "error", cell: (td, r) => draw(td, [r.record, r.error_class, errorOf(r)], () =>
				h("a", { href: href(["letters", this.queue, r.record]) }, h("span", { class: "class" }, preview(field(r, "error_class"))), " ", h("span", { class: "said" }, errorOf(r)))) },
			{ id: "attempts", title: "Attempts", css: "number second", cell: textCell((r) => count(r.attempts)) },
			{ id: "size", title: "Size", css: "number third", cell: textCell((r) => bytes(r.size)) },
			{ id: "id", title: "Message", css: "id third", cell: (td, r) => { setText(td, r.id); setAttribute(td, "title", r.id); } },
			{ id: "act", title: "", label: "Actions", css: "acts", cell: (td, r) => draw(td, r.record, () => [
				h("button", { type: "button", class: "small", "aria-label": `Retry ${r.record}`, onclick: () => this.#act(retryLetters, [r.record]) }, "Retry"),
				h("button", { type: "button", class: "small danger", "aria-label": `Delete ${r.record}`, onclick: () => this.#act(deleteLetters, [r.record]) }, "Delete")]) },
		];
	}

	// ---- filters ----

	go(route) {
		if (!this.letters)
			return;
		const filter = { class: route.params.get("class") ?? "", cause: route.params.get("cause") ?? "", text: this.search.value };
		const anew = this.letters.setFilter(filter);
		this.table.unmark();
		this.#showChoiceOfClass();
		if (anew || !this.loaded)
			this.#reload();
		else
			this.#show();
		if (filter.cause)
			this.#readOn();
	}

	#narrow(filter) {
		location.hash = href(["letters", this.queue], filter);
	}

	#searched() {
		this.letters.setFilter({ ...this.letters.filter, text: this.search.value });
		this.#show();
		clearTimeout(this.typing);
		this.typing = setTimeout(() => this.#readOn(), 400);
	}

	/** Matching records may be older than those that were read. */
	async #readOn() {
		if (!this.letters.narrowed() || this.reading)
			return;
		this.reading = true;
		await this.#guard(() => this.letters.search(() => {
			this.#show();
			return this.letters.narrowed() && !this.letters.abort.signal.aborted;
		}));
		this.reading = false;
		this.#show();
	}

	async #guard(ask) {
		try {
			await ask();
			setNotice(this.notice, "");
		} catch (e) {
			if (!this.letters.abort.signal.aborted)
				setNotice(this.notice, `Reading the records failed: ${e.message}`);
		}
	}

	async #reload() {
		await this.#guard(async () => {
			const [stats] = await Promise.all([get("queue/dlq/stats", { queue: this.queue }, this.letters.abort.signal), this.letters.again()]);
			this.stats = stats;
			this.loaded = true;
		});
		this.#show();
	}

	/** After a change in Redis; many changes in a row cause one refresh. */
	#changed() {
		this.timer ??= setTimeout(async () => {
			await this.#reload();
			this.timer = null;
		}, this.loaded ? AGAIN_MS : 0);
	}

	refresh() {
		this.#showChoice();
		const size = store.queue(this.queue)?.escape_size;
		if (!this.letters || size === undefined || size === this.size)
			return;
		if (this.size !== undefined)
			this.#changed();
		this.size = size;
		this.#show();
	}

	// ---- drawing ----

	#showChoice() {
		const some = store.queues.filter((q) => q.escape_size > 0 || q.name === this.queue);
		draw(this.choice, [this.queue, some.map((q) => [q.name, q.escape_size])], () => some.map((q) =>
			h("a", { href: href(["letters", q.name]), "aria-current": q.name === this.queue ? "page" : null }, q.name, h("span", { class: "number" }, count(q.escape_size)))));
		draw(this.rest, [this.queue, store.known, some.length === 0, Boolean(this.queue && store.known && !store.queue(this.queue))], () => {
			if (this.queue)
				return store.known && !store.queue(this.queue) ? empty(`There is no queue ${this.queue}`) : null;
			if (!store.known)
				return h("p", { class: "muted loading" }, "Looking at Redis …");
			return some.length > 0 ? h("p", { class: "muted" }, "Choose a queue: its dead letters are grouped by cause.")
				: empty("No dead letters", h("p", null, "No message of any queue failed for good. Those that do are kept here, with what their handler said."));
		});
	}

	#show() {
		const shown = this.letters.shown();
		this.table.element.hidden = shown.length === 0;
		this.table.update(shown);
		this.#showCauses();
		this.#showChoiceOfClass();
		this.#showFound(shown.length);
		this.#showFoot(shown.length);
	}

	#classes() {
		return (this.stats ?? []).filter((s) => s.by === "class" && s.key !== undefined);	// only text can be part of an address
	}

	#total() {
		const of = this.letters.filter.class;
		return of ? this.#classes().find((c) => c.key === of)?.count ?? 0 : this.size ?? this.#classes().reduce((n, c) => n + c.count, 0);
	}

	#showChoiceOfClass() {
		const of = this.letters.filter.class;
		const names = this.#classes().map((c) => [c.key, c.count]);
		if (of && !names.some(([key]) => key === of))
			names.push([of, 0]);
		draw(this.kind, names, () => [h("option", { value: "" }, "All classes"), names.map(([key, n]) => h("option", { value: key }, `${key} (${count(n)})`))]);
		if (this.kind.value !== of)
			this.kind.value = of;
	}

	/** One line for each cause, the most frequent first; each is a filter. */
	#showCauses() {
		const causes = (this.stats ?? []).filter((s) => s.by === "cause").map((c) => ({ ...c, key: field(c, "key").text }));
		const most = Math.max(1, ...causes.map((c) => c.count));
		draw(this.causes, [causes, this.letters.filter.cause, this.every], () => {
			if (causes.length === 0)
				return null;
			const shown = this.every ? causes : causes.slice(0, CAUSES_SHOWN);
			return [h("h2", null, "By cause"), h("ol", null, shown.map((c) => this.#cause(c, most))),
				causes.length > shown.length && h("button", { type: "button", class: "quiet", onclick: () => { this.every = true; this.#showCauses(); } },
					`${count(causes.length - shown.length)} more`)];
		});
	}

	#cause(cause, most) {
		const on = cause.key === this.letters.filter.cause;
		const to = href(["letters", this.queue], on ? {} : { class: classOf(cause.key), cause: cause.key });
		const bar = h("span", { class: "cause-bar", "aria-hidden": "true" });
		bar.style.width = `${Math.max(1, (100 * cause.count) / most)}%`;
		return h("li", null, h("a", { href: to, "aria-current": on ? "true" : null, title: on ? "Show all again" : "Show only these" },
			h("span", { class: "cause-count" }, count(cause.count)), h("span", { class: "cause-text" }, bar, visibleLine(cause.key, 300)),
			h("span", { class: "cause-when muted" }, "last ", time(cause.newest))));
	}

	#showFound(n) {
		const total = this.#total(), read = this.letters.records.length;
		const all = read >= total || this.letters.complete;
		setText(this.found, !this.loaded ? "" : this.letters.narrowed()
			? `${count(n)} found${all ? "" : ` among the newest ${count(read)}`}${this.reading && !all ? ", still reading …" : ""}`
			: `${all ? "" : `${count(n)} of `}${plural(total, "dead letter")}`);
	}

	#showFoot(n) {
		draw(this.foot, [this.loaded, n, this.letters.complete, this.reading, this.size], () => {
			if (!this.loaded)
				return h("p", { class: "muted loading" }, "Reading …");
			const more = !this.letters.complete && this.letters.records.length > 0 && !this.reading;
			if (n === 0 && !more)
				return this.size > 0 && !this.letters.narrowed() && !this.letters.filter.class
					? empty("Dead letters without records", h("p", null, "Records are off for this queue, or another program pushed these dead letters. The list: "),
						h("a", { href: href(["queue", this.queue, "escape"]) }, "escape"))
					: empty(this.letters.narrowed() || this.letters.filter.class ? "No matching dead letters" : `No dead letters in ${this.queue}`);
			return more ? h("button", { type: "button", onclick: () => this.#more() }, "Show more") : null;
		});
	}

	async #more() {
		if (this.letters.narrowed())
			return this.#readOn();
		await this.#guard(() => this.letters.more());
		this.#show();
	}

	/** The buttons act on the selected dead letters; without a selection, on all that the page shows. */
	#showMarks(marked) {
		const n = marked.size, narrowed = this.letters.narrowed(), total = this.#total();
		draw(this.marks, [n, narrowed, total, this.letters.filter.class], () => (n > 0
			? [h("span", null, `${count(n)} marked`),
				h("button", { type: "button", class: "quiet", onclick: () => this.table.unmark() }, "Unmark"),
				h("button", { type: "button", class: "primary", onclick: () => this.#act(retryLetters, [...marked]) }, `Retry ${count(n)}`),
				h("button", { type: "button", class: "danger", onclick: () => this.#act(deleteLetters, [...marked]) }, `Delete ${count(n)}`)]
			: [h("button", { type: "button", disabled: total === 0, onclick: () => this.#all(retryLetters, retryAllLetters) }, narrowed ? "Retry these" : "Retry all"),
				h("button", { type: "button", class: "danger", disabled: total === 0, onclick: () => this.#all(deleteLetters, deleteAllLetters) }, narrowed ? "Delete these" : "Delete all")]));
	}

	// ---- actions ----

	#all(these, all) {
		if (this.letters.narrowed())
			return this.#act(these, this.letters.shown().map((r) => r.record));
		return this.#finish(all(this.queue, this.letters.filter.class, this.#total()));
	}

	/** Oldest first, so that they return in their order. */
	#act(action, ids) {
		if (ids.length === 0)
			return null;
		const order = this.letters.records.map((r) => r.record).filter((id) => ids.includes(id)).reverse();
		return this.#finish(action(this.queue, order));
	}

	async #finish(done) {
		if (await done === null)
			return;
		this.table.unmark();
		await this.#reload();
	}

	close() {
		this.letters?.close();
		clearTimeout(this.timer);
		clearTimeout(this.typing);
	}
}
