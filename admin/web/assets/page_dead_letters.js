// Dead letters by queue, cause and class. The user retries or deletes one, the selected ones, or all.
import { deleteAllDeadLetters, deleteDeadLetters, retryAllDeadLetters, retryDeadLetters } from "./actions.js";
import { DeadLetters, FILTER } from "./dead_letters.js";
import { draw, h, setAttribute, setText } from "./dom.js";
import { bytes, count, plural, setTime, time } from "./format.js";
import { messagePreview, preview } from "./message.js";
import { Operations } from "./operations.js";
import { causeParts, empty, noQueue, notice, setNotice } from "./parts.js";
import { href } from "./route.js";
import { store } from "./store.js";
import { Table, textCell } from "./table.js";
import { field, visibleLine } from "./visible.js";

const AGAIN_MS = 2000;
const EVERY_MS = 15000;		// other dead letters may be there although their number is the same
const CAUSES_SHOWN = 8;
const CAUSES_MORE = 5;		// with each click this many times as many
const STATS_LEAST = 50, STATS_MOST = 1000;		// of classes, and of causes; the most is that of the API
const TYPING_MS = 400;
const MORE = [["since", "Since", "02:00, 1h30m"], ["until", "Until", "02:00, 10m"], ["exit", "Exit status", "3"], ["worker", "Worker or node", "web1"],
	["root", "Root", "order-17"]];

function errorOf(record) {
	const value = field(record, "error_message");
	return value === null || value.text === "" ? "(no error text)" : visibleLine(value.text);
}

/** A cause begins with its class; "?" means no class. */
function classOf(cause) {
	return cause.split(/[ :]/)[0].replace("?", "");
}

/** The error of quredis repeats the exit status or the signal: "HandlerExit exit 3: exit status 3: no route" becomes "HandlerExit exit 3: no route". */
function causeText(cause) {
	return visibleLine(cause.replace(/^(\S+ exit (\d+)): exit status \2(?=: |$)/, "$1").replace(/^(\S+ (SIG\w+)): killed by \2(?=: |$)/, "$1"), 300);
}

/** How many dead letters stats has, of all classes; null: not all classes are there. */
function ofAllClasses({ rows, more }) {
	return more.class > 0 ? null : rows.filter((s) => s.by === "class").reduce((n, s) => n + s.count, 0);
}

/** How many dead letters have the cause, or else the class, of this filter, by the numbers in stats; null: they must be counted. */
function countOf({ rows }, { cause, class: of, ...rest }) {
	if (Object.keys(rest).length > 0 || (cause && of && of !== classOf(cause)))
		return null;
	const [by, key] = cause ? ["cause", cause] : ["class", of];
	return rows.find((s) => s.by === by && s.key === key)?.count ?? null;
}

export class DeadLettersPage {
	constructor(route) {
		this.queue = route.path[1] ?? null;
		this.title = this.queue ? `Dead letters of ${this.queue}` : "Dead letters";
		this.choice = h("nav", { class: "choice", "aria-label": "Queues with dead letters" });
		this.element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", null, "Dead letters")), this.choice);
		this.rest = h("div");
		this.operations = new Operations(this.queue);
		this.element.append(this.rest, this.operations.element);
		if (this.queue)
			this.#makeList(route);
	}

	#makeList(route) {
		this.dead_letters = new DeadLetters(this.queue);
		this.counting = 0;	// how many counts have begun and not ended
		this.stats = { rows: [], more: {} };
		this.causes_shown = CAUSES_SHOWN;
		this.causes = h("section", { class: "causes", "aria-label": "Causes" });
		this.kind = h("select", { "aria-label": "Class", onchange: () => this.#narrow({ ...this.dead_letters.filter, class: this.kind.value, cause: "" }) });
		this.search = h("input", { type: "search", placeholder: "Search errors, stderr, ids", "aria-label": "Search", oninput: () => this.#typed() });
		this.fields = Object.fromEntries(MORE.map(([name, label, example]) =>
			[name, h("input", { type: "text", placeholder: example, "aria-label": label, size: 10, oninput: () => this.#typed() })]));
		this.more = h("details", { class: "more-filters" }, h("summary", null, "More filters"),
			MORE.map(([name, label]) => h("label", null, label, " ", this.fields[name])));
		this.marks = h("div", { class: "marks", role: "group", "aria-label": "Selected dead letters" });
		this.tools = h("div", { class: "tools" }, this.kind, this.search, this.more, this.found = h("span", { class: "muted", role: "status" }), h("div", { class: "grow" }), this.marks);
		this.notice = notice();
		this.table = new Table({ name: "dead-letters", caption: `Dead letters of ${this.queue}`, columns: this.#columns(), key: (r) => r.record,
			selectable: true, on_select: (marked) => this.#showMarks(marked) });
		this.foot = h("div", { class: "foot" });
		this.list = h("div", { class: "dead-letters-list" }, this.causes, this.tools, this.notice, this.table.element, this.foot);
		this.element.append(this.list);
		this.clock = setInterval(() => this.#look(), EVERY_MS);
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
				h("a", { href: href(["dead-letters", this.queue, r.record]) }, h("span", { class: "class" }, preview(field(r, "error_class"))), " ", h("span", { class: "said" }, errorOf(r)))) },
			{ id: "message", title: "Message", css: "message second", cell: (td, r) => draw(td, r.record, () => this.#payload(r)) },
			{ id: "attempts", title: "Attempts", css: "number second", cell: textCell((r) => count(r.attempts)) },
			{ id: "size", title: "Size", css: "number third", cell: textCell((r) => bytes(r.size)) },
			{ id: "id", title: "Id", css: "id fourth", cell: (td, r) => { setText(td, r.id); setAttribute(td, "title", r.id); } },
			{ id: "act", title: "", label: "Actions", css: "acts", cell: (td, r) => draw(td, r.record, () => [
				h("button", { type: "button", class: "small", "aria-label": `Retry ${r.record}`, onclick: () => this.#act(retryDeadLetters, [r.record]) }, "Retry"),
				h("button", { type: "button", class: "small danger", "aria-label": `Delete ${r.record}`, onclick: () => this.#act(deleteDeadLetters, [r.record]) }, "Delete")]) },
		];
	}

	/** The server sends the beginning of a message only. */
	#payload(record) {
		const value = field(record, "message");
		if (value === null)
			return h("span", { class: "muted" }, "not in the record");
		return h("span", { class: "payload", title: value.binary ? "Bytes that are not UTF-8" : null }, messagePreview(value), record.cut && !messagePreview(value).endsWith("…") ? "…" : "");
	}

	// ---- filters ----

	go(route) {
		if (!this.dead_letters)
			return;
		const filter = Object.fromEntries(FILTER.map((name) => [name, route.params.get(name) ?? ""]));
		const anew = this.dead_letters.setFilter(filter);
		this.#showFilter(filter);
		this.table.unmark();
		this.#showChoiceOfClass();
		if (anew || !this.loaded) {
			this.found_n = countOf(this.stats, this.dead_letters.filter);
			this.#reload();
		} else {
			this.#show();
		}
	}

	#narrow(filter) {
		location.hash = href(["dead-letters", this.queue], filter);
	}

	#showFilter(filter) {
		for (const [name, input] of [["text", this.search], ...Object.entries(this.fields)])
			if (document.activeElement !== input)
				input.value = filter[name];
		this.more.open ||= MORE.some(([name]) => filter[name] !== "");
	}

	/** The server filters: it is asked when the user pauses. */
	#typed() {
		clearTimeout(this.typing);
		this.typing = setTimeout(() => this.#narrow({ ...this.dead_letters.filter, text: this.search.value.trim(),
			...Object.fromEntries(Object.entries(this.fields).map(([name, input]) => [name, input.value.trim()])) }), TYPING_MS);
	}

	/** false: the records could not be read. */
	async #guard(ask) {
		try {
			await ask();
			setNotice(this.notice, "");
			return true;
		} catch (e) {
			if (!this.dead_letters.abort.signal.aborted)
				setNotice(this.notice, `Reading the records failed: ${e.message}`);
			return false;
		}
	}

	/** The records come first: to count a million takes seconds. anew: those that were read may be obsolete. */
	async #reload(anew = false) {
		const of = this.dead_letters.filter;
		this.counting++;
		const is_read = await this.#guard(async () => {
			await this.dead_letters.again(anew);
			this.loaded ||= of === this.dead_letters.filter;
		});
		this.#show();
		if (this.loaded && is_read)
			await this.#count(of);
		this.counting--;
		this.#show();
	}

	async #count(of) {
		try {
			const stats = await this.dead_letters.stats(Math.max(STATS_LEAST, this.causes_shown), true);
			const found = this.dead_letters.filtered() ? countOf(stats, of) ?? ofAllClasses(await this.dead_letters.stats(STATS_MOST, false)) : null;
			if (of === this.dead_letters.filter)
				Object.assign(this, { stats, found_n: found });
		} catch (e) {
			if (this.dead_letters.abort.signal.aborted || of !== this.dead_letters.filter)
				return;
			setNotice(this.notice, `Counting the dead letters failed: ${e.message}. The actions still work for all of them, and show how far they are.`);
			this.found_n = null;
		}
	}

	/** Counts only if there are other records. */
	async #look() {
		const ids = () => this.dead_letters.records.map((r) => r.record).join(" "), before = ids();
		if (document.hidden || !this.loaded || this.gone || this.counting > 0)
			return;
		await this.#guard(() => this.dead_letters.again());
		if (ids() !== before)
			await this.#reload();
	}

	/** After a time without data: the records that were read before may be obsolete. */
	reread() {
		if (this.dead_letters)
			this.#reload(true);
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
		if (!this.dead_letters || !store.known)
			return;
		const size = store.queue(this.queue)?.escape_size, was_gone = this.gone;
		this.list.hidden = this.gone = size === undefined;
		if (this.gone)
			this.table.unmark();
		else if (was_gone)
			this.reread();
		if (this.gone || size === this.size)
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
			h("a", { href: href(["dead-letters", q.name]), "aria-current": q.name === this.queue ? "page" : null }, q.name, h("span", { class: "number" }, count(q.escape_size)))));
		const gone = Boolean(this.queue && store.known && !store.queue(this.queue));
		draw(this.rest, [this.queue, store.known, some.length === 0, gone, this.loaded], () => {
			if (this.queue)
				return gone ? noQueue(this.queue, this.loaded) : null;
			if (!store.known)
				return h("p", { class: "muted loading" }, "Looking at Redis …");
			return some.length > 0 ? h("p", { class: "muted" }, "Choose a queue: its dead letters are grouped by cause.")
				: empty("No dead letters", h("p", null, "No message of any queue failed for good. Those that do are kept here, with what their handler said."));
		});
	}

	#show() {
		const shown = this.dead_letters.records;
		this.table.element.hidden = shown.length === 0;
		this.table.update(shown);
		this.#showCauses();
		this.#showChoiceOfClass();
		this.#showFound();
		this.#showFoot(shown.length);
	}

	#classes() {
		return this.stats.rows.filter((s) => s.by === "class" && s.key !== undefined);	// only text can be part of an address
	}

	/** Of all that match, read or not; null: not known. */
	#total() {
		return this.dead_letters.filtered() ? this.found_n : this.size ?? ofAllClasses(this.stats);
	}

	#showChoiceOfClass() {
		const of = this.dead_letters.filter.class ?? "";
		const names = this.#classes().map((c) => [c.key, c.count]);
		if (of && !names.some(([key]) => key === of))
			names.push([of, 0]);
		draw(this.kind, names, () => [h("option", { value: "" }, "All classes"), names.map(([key, n]) => h("option", { value: key }, `${key} (${count(n)})`))]);
		if (this.kind.value !== of)
			this.kind.value = of;
	}

	/** One line for each cause, the most frequent first; each is a filter. */
	#showCauses() {
		const causes = this.stats.rows.filter((s) => s.by === "cause").map((c) => ({ ...c, key: field(c, "key").text, binary: field(c, "key").binary }));
		const most = Math.max(1, ...causes.map((c) => c.count));
		const all = causes.length + (this.stats.more.cause ?? 0), shown = causes.slice(0, this.causes_shown), hidden = all - shown.length;
		draw(this.causes, [shown, all, this.dead_letters.filter.cause], () => all > 0 && [
			h("h2", null, "By cause", hidden > 0 && h("span", { class: "muted" }, ` ${count(shown.length)} of ${count(all)} causes`)), h("ol", null, shown.map((c) => this.#cause(c, most))),
			hidden > 0 && shown.length < STATS_MOST && h("button", { type: "button", class: "quiet", onclick: () => this.#moreCauses() }, "Show more causes")]);
	}

	/** The server gives as many as are shown. */
	async #moreCauses() {
		this.causes_shown = Math.min(STATS_MOST, this.causes_shown * CAUSES_MORE);
		if (this.stats.more.cause > 0)
			await this.#count(this.dead_letters.filter);
		this.#show();
	}

	#cause(cause, most) {
		const on = cause.key === this.dead_letters.filter.cause;
		const to = href(["dead-letters", this.queue], on ? {} : { class: classOf(cause.key), cause: cause.key });
		return h("li", null, h("a", { href: cause.binary ? null : to, "aria-current": on ? "true" : null, title: on ? "Show all again" : "Show only these" },
			causeParts(cause.count, most, causeText(cause.key), cause.newest)));
	}

	#showFound() {
		const total = this.#total(), read = this.dead_letters.records.length;
		setText(this.found, !this.loaded ? "" : total === null ? (this.counting > 0 ? "Counting …" : "Not counted") : this.dead_letters.filtered() ? `${count(total)} found`
			: `${read >= total || this.dead_letters.complete ? "" : `${count(read)} of `}${plural(total, "dead letter")}`);
	}

	#showFoot(n) {
		draw(this.foot, [this.loaded, n, this.dead_letters.complete, this.size, this.found_n], () => {
			if (!this.loaded)
				return h("p", { class: "muted loading" }, "Reading …");
			const more = !this.dead_letters.complete && this.dead_letters.records.length > 0;
			if (n === 0 && !more)
				return this.size > 0 && !this.dead_letters.filtered()
					? empty("Dead letters without records", h("p", null, "Records are off for this queue, or another program pushed these dead letters. The list: "),
						h("a", { href: href(["queue", this.queue, "escape"]) }, "escape"))
					: empty(this.dead_letters.filtered() ? "No matching dead letters" : `No dead letters in ${this.queue}`);
			return more ? h("button", { type: "button", onclick: () => this.#more() }, "Show more") : null;
		});
	}

	async #more() {
		await this.#guard(() => this.dead_letters.more());
		this.#show();
	}

	/** The buttons act on the selected dead letters; without a selection, on all that the page shows. */
	#showMarks(marked) {
		const n = marked.size, filtered = this.dead_letters.filtered(), total = this.#total();
		const none = total === 0 || (total === null && this.counting > 0);
		draw(this.marks, [n, filtered, total, none], () => (n > 0
			? [h("span", null, `${count(n)} selected`),
				h("button", { type: "button", class: "quiet", onclick: () => this.table.unmark() }, "Clear selection"),
				h("button", { type: "button", class: "primary", onclick: () => this.#act(retryDeadLetters, [...marked]) }, `Retry ${count(n)}`),
				h("button", { type: "button", class: "danger", onclick: () => this.#act(deleteDeadLetters, [...marked]) }, `Delete ${count(n)}`)]
			: [h("button", { type: "button", disabled: none, onclick: () => this.#all(retryAllDeadLetters) }, filtered ? "Retry these" : "Retry all"),
				h("button", { type: "button", class: "danger", disabled: none, onclick: () => this.#all(deleteAllDeadLetters) }, filtered ? "Delete these" : "Delete all")]));
	}

	// ---- actions ----

	/** Reads again also after a failure: messages that failed again may leave the number as it was. */
	async #all(action) {
		await action(this.queue, this.dead_letters.filter, this.#total());
		this.table.unmark();
		await this.#reload();
	}

	/** Oldest first, so that they return in their order. */
	#act(action, ids) {
		if (ids.length === 0)
			return null;
		const order = this.dead_letters.records.map((r) => r.record).filter((id) => ids.includes(id)).reverse();
		return this.#finish(action(this.queue, order));
	}

	async #finish(done) {
		if (await done === null)
			return;
		this.table.unmark();
		await this.#reload();
	}

	close() {
		this.operations.close();
		this.dead_letters?.close();
		clearInterval(this.clock);
		clearTimeout(this.timer);
		clearTimeout(this.typing);
	}
}
