// All queues, and what needs attention.
import { Sparkline } from "./chart.js";
import { draw, h, setAttribute, setText } from "./dom.js";
import { count, duration, now, plural, rate } from "./format.js";
import { badge, HEALTH, healthRank, icon } from "./icons.js";
import { column, command, DONE, empty, entry, FAILED, Figures, healthCell, queueLink, WORKERS } from "./parts.js";
import { href } from "./route.js";
import { store } from "./store.js";
import { Table } from "./table.js";
import { CODES, FIGURES } from "./words.js";

const FILTER_FROM = 8;
const F = FIGURES.queue;
const PROBLEMS_SHOWN = 6;
const NAMES_SHOWN = 4;

function numberCell(td, n, to) {
	draw(td, [n, to], () => (to && n > 0 ? h("a", { href: to }, count(n)) : h("span", { class: n > 0 ? null : "zero" }, count(n))));
}

function oldest(queue) {
	const age = queue.health?.ingress?.oldest_age;
	return queue.ingress_size > 0 && age !== undefined ? age * 1000 : null;
}

function paceCell(td, queue) {
	if (!td.spark) {
		td.spark = new Sparkline();
		td.figure = h("span");
		td.append(td.spark.element, td.figure);
	}
	const line = queue.past.line(now());
	td.spark.set(line);
	setAttribute(td, "title", `Done a minute over the last 5 minutes: the line begins at 0, its highest point is ${rate(Math.max(...line))}`);
	setText(td.figure, rate(store.rate(queue, "done")));
}

const COLUMNS = [
	{ id: "name", title: "Queue", header: true, value: (q) => q.name, cell: (td, q) => queueLink(td, q.name) },
	{ id: "state", title: "State", value: (q) => q.state.word, css: "state",
		cell: (td, q) => draw(td, q.state, () => badge(q.state.level, q.state.word, q.state.why)) },
	{ id: "ingress", ...column(F["ingress.size"]), value: (q) => q.ingress_size, first: "down", css: "number waiting",
		cell: (td, q) => numberCell(td, q.ingress_size, href(["queue", q.name, "ingress"])) },
	{ id: "transit", ...column(F["transit.size"]), value: (q) => q.transit_size, first: "down", css: "number",
		cell: (td, q) => numberCell(td, q.transit_size, href(["queue", q.name, "transit"])) },
	{ id: "delayed", ...column(F["delayed.size"]), value: (q) => q.delayed_size, first: "down", css: "number second",
		cell: (td, q) => numberCell(td, q.delayed_size, href(["queue", q.name, "delayed"])) },
	{ id: "escape", ...column(F["escape.size"]), value: (q) => q.escape_size, first: "down", css: "number dead-letters",
		cell: (td, q) => numberCell(td, q.escape_size, href(["dead-letters", q.name])) },
	{ id: "pace", ...column(DONE, "; ", { text: "the line shows the last five minutes, each with its own scale" }), value: (q) => store.rate(q, "done"), first: "down",
		css: "number pace second", cell: paceCell },
	{ id: "failed", ...column(FAILED), value: (q) => store.rate(q, "failed"), first: "down", css: "number third",
		cell: (td, q) => {
			setText(td, rate(store.rate(q, "failed")));
			td.title = q.health?.failures?.text ?? "";
		} },
	{ id: "oldest", ...column(F["ingress.oldest_age"]), value: oldest, first: "down", css: "number third",
		cell: (td, q) => setText(td, duration(oldest(q))) },
	{ id: "workers", ...column(...WORKERS), value: (q) => q.alive, first: "down", css: "number third",
		cell: (td, q) => setText(td, q.served.length > 0 ? `${q.alive}/${q.wanted}` : "–") },
	{ id: "health", title: "Health", value: (q) => healthRank(q.health?.status), css: "health second",
		cell: (td, q) => healthCell(td, q.health) },
];

/** Shown if no queue has a problem. A few dead letters are no problem of the queue, but need a decision. */
function wellLine(dead_letters, judged) {
	const well = judged ? "All queues are healthy" : "No problems found";
	return h("p", { class: "well" }, icon(dead_letters > 0 ? "warn" : "ok"),
		h("span", null, well, dead_letters > 0 && ["; ", h("a", { href: "#/dead-letters" }, plural(dead_letters, "dead letter")), dead_letters === 1 ? " needs" : " need", " a decision"]));
}

function problemLine(same) {
	const names = same.slice(0, NAMES_SHOWN).map((t) => h("a", { href: t.to, title: t.name.length > 30 ? t.name : null }, t.name));
	const more = same.length - names.length;
	return h("li", null, icon(same[0].level), h("span", { class: "names" }, names, more > 0 && ` and ${count(more)} more`), h("span", { title: same[0].text.length > 200 ? same[0].text : null }, same[0].text));
}

export class OverviewPage {
	title = "Overview";

	constructor() {
		this.figures = new Figures([
			entry([F["ingress.size"]]), entry([F["transit.size"]], "#/flight"), entry([F["delayed.size"]]), entry([F["escape.size"]], "#/dead-letters"),
			entry([DONE]), entry([FAILED]), entry(WORKERS, "#/nodes")]);
		this.spark = new Sparkline(280, 44);
		this.problems = h("section", { class: "problems", "aria-label": "What needs attention" });
		this.filter = h("input", { type: "search", placeholder: "Filter queues", "aria-label": "Filter queues", oninput: () => this.refresh() });
		this.tools = h("div", { class: "tools", hidden: true }, this.filter, this.found = h("span", { class: "muted", role: "status" }));
		this.table = new Table({ name: "overview", caption: "Queues", columns: COLUMNS, key: (q) => q.name,	// in the order of ls: the sickest first
			row_class: (q) => (q.paused ? "off" : null) });
		this.rest = h("div");
		this.element = h("div", { class: "page" }, h("h1", { class: "hidden" }, "Overview"),
			h("div", { class: "totals" }, this.figures.element, h("figure", { class: "total-line" }, this.spark_text = h("figcaption"), this.spark.element)),
			this.problems, this.tools, this.table.element, this.rest);
	}

	refresh() {
		const queues = store.queues;
		const totals = store.totals();
		this.#showTotals(totals);
		this.#showProblems(totals.escape);
		this.tools.hidden = queues.length < FILTER_FROM;
		const wanted = this.tools.hidden ? "" : this.filter.value.trim().toLowerCase();
		const found = wanted ? queues.filter((q) => q.name.toLowerCase().includes(wanted)) : queues;
		setText(this.found, wanted ? `${count(found.length)} of ${count(queues.length)} queues` : `${count(queues.length)} queues`);
		this.table.element.hidden = queues.length === 0;
		this.table.update(found);
		this.#showRest();
	}

	#showTotals(t) {
		this.figures.set(store.known ? [t.ingress, t.transit, t.delayed, t.escape, rate(t.done), rate(t.failed), `${count(t.alive)}/${count(t.wanted)}`] : Array(7).fill("–"),
			["", "", "", t.escape > 0 ? "some" : "", "", "", t.alive < t.wanted ? "warn" : ""]);
		this.spark.set(t.line);
		setText(this.spark_text, store.known ? `Done a minute, last 5 min, max ${rate(Math.max(...t.line))}` : "");
	}

	/** All problems in words, the worst first. Queues with the same problem share a line. */
	#showProblems(dead_letters) {
		const ill = store.queues.flatMap((q) => this.#problemsOf(q)).sort((a, b) => (a.level === "bad" ? 0 : 1) - (b.level === "bad" ? 0 : 1));
		this.problems.hidden = !store.known || store.queues.length === 0;
		draw(this.problems, [ill, store.health === null, dead_letters], () => {
			if (ill.length === 0)
				return wellLine(dead_letters, store.health !== null);
			const kinds = Map.groupBy(ill, (t) => `${t.level} ${t.text}`);
			const lines = [...kinds.values()].slice(0, PROBLEMS_SHOWN).map(problemLine);
			return [h("ul", null, lines), kinds.size > lines.length && h("a", { class: "more", href: "#/health" }, `and ${count(kinds.size - lines.length)} more`)];
		});
	}

	#problemsOf(queue) {
		const reasons = (queue.health?.reasons ?? []).map((r) => r.text);
		const level = queue.health ? HEALTH[queue.health.status] : queue.state.level;
		if (queue.state.level === "bad" && !(queue.health?.reasons ?? []).some((r) => r.code === queue.state.code))
			reasons.unshift(queue.state.why);
		else if (queue.state.word === "no workers" && queue.ingress_size > 0 && queue.wanted === 0)
			reasons.unshift("messages wait, but no worker fetches");
		if (reasons.length === 0)
			return [];
		const pages = new Set((queue.health?.reasons ?? []).map((r) => CODES[r.code]?.page));		// that explain the reasons
		const page = pages.size === 1 && reasons.length === queue.health.reasons.length ? [...pages][0] : null;
		return [{ level: level === "bad" ? "bad" : "warn", name: queue.name, text: reasons.join("; "), to: href([page ?? "queue", queue.name]) }];
	}

	#showRest() {
		draw(this.rest, [store.known, store.queues.length > 0, store.health !== null], () => {
			if (!store.known)
				return h("p", { class: "muted loading" }, "Reading from Redis …");
			if (store.queues.length === 0 && store.had_queues)
				return empty("All queues are gone", h("p", null, "This page has shown queues before: Redis lost its data, or the console now uses another Redis."),
					h("p", null, "A supervisor that runs registers its queues again, without the messages that Redis lost."));
			if (store.queues.length === 0)
				return empty("No queues yet", h("p", null, "A queue appears as soon as quredisd serves it. In /etc/quredis/conf.d/hello.conf:"),
					command('queues = ( { name = "hello"; handler = ["/usr/bin/logger"]; } );'),
					h("p", null, "then start quredisd, and push a message:"), command("quredis push hello 'my first message'"));
			if (store.health === null)
				return h("p", { class: "muted" }, "No supervisor reports the health of these queues. ", h("code", null, "health = { enabled = true; };"),
					" in quredis.conf turns on health reports and the age of the oldest message.");
			return null;
		});
	}
}
