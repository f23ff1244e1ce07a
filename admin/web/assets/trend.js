// The course of a queue over time: its charts, and the choice of the time that they show.
import { get } from "./api.js";
import { niceDuration, niceNumber, TimeChart } from "./chart.js";
import { draw, h } from "./dom.js";
import { absolute, count, duration } from "./format.js";

export const RANGES = [
	{ id: "1h", name: "1 h", words: "last hour", every_ms: 5000 }, { id: "6h", name: "6 h", words: "last 6 hours", every_ms: 30000 },
	{ id: "24h", name: "24 h", words: "last 24 hours", every_ms: 60000 }, { id: "72h", name: "72 h", words: "last 72 hours", every_ms: 120000 },
];

/** The range that an address names; the first one if it names none. */
export function rangeOf(id) {
	return RANGES.find((r) => r.id === id) ?? RANGES[0];
}

/** Radio buttons: Tab reaches the chosen one, and the arrow keys choose. */
export class RangePicker {
	constructor(chosen) {
		this.inputs = RANGES.map((r) => h("input", { type: "radio", name: "range", value: r.id, onchange: () => chosen(r) }));
		this.element = h("fieldset", { class: "ranges" }, h("legend", null, "Show the last"),
			RANGES.map((r, i) => h("label", null, this.inputs[i], h("span", null, r.name))));
	}

	set(range) {
		for (const input of this.inputs)
			input.checked = input.value === range.id;
	}
}

const MINUTE_MS = 60000;

function stepWords(points) {
	const minutes = Math.max(...points.map((p) => p.until - p.from)) / MINUTE_MS;
	return minutes < 60 ? (minutes === 1 ? "minute" : `${minutes} minutes`) : "hour";
}

const CHARTS = [
	{ id: "backlog", title: "Backlog", series: [{ id: "backlog", name: "at most" }], kind: "lines", format: count, ceiling: niceNumber,
		values: (r) => [r.backlog], unit: (step) => `messages waiting, the most in each ${step}`,
		words: (r) => (r.backlog === null ? "backlog not known" : `${count(r.backlog)} waiting at most`) },
	{ id: "outcomes", title: "Outcomes", series: [{ id: "done", name: "done" }, { id: "failed", name: "failed" }], kind: "bars", format: count, ceiling: niceNumber,
		sum: true, values: (r) => [r.done, r.failed], unit: (step) => `attempts in each ${step}`,
		words: (r) => `${count(r.done)} done, ${count(r.failed)} failed` },
	{ id: "wait", title: "Waiting time", series: [{ id: "p50", name: "p50 <" }, { id: "p99", name: "p99 <" }], kind: "lines", format: (ms) => (ms === 0 ? "0" : duration(ms)), ceiling: niceDuration,
		values: (r) => [r.wait_p50_below_ms, r.wait_p99_below_ms], unit: () => "until fetched, estimated in minutes",
		words: (r) => (r.wait_p50_below_ms === null ? "no waiting times" :
			`half of the messages waited less than ${duration(r.wait_p50_below_ms)}, 99 % less than ${duration(r.wait_p99_below_ms)}`) },
];

/** The time of a row, for a tooltip: a part of the row may be unknown. */
function rowTitle(row, words) {
	const time = `${absolute(row.from)} to ${absolute(row.until).slice(-8)}`;
	return `${time}\n${row.minutes > 0 ? words : "no figures: no supervisor of this queue ran"}`;
}

export class Trend {
	constructor() {
		this.charts = CHARTS.map((c) => new TimeChart(c));
		this.table = h("details", { class: "trend-table" });
		this.element = h("section", { class: "trend", "aria-label": "Course over time" }, this.charts.map((c) => c.element), this.table);
	}

	async ask(name, range, signal) {
		const rows = (await get("queue/trend", { queue: name, since: range.id }, signal)).map((r) => ({ ...r, from: Date.parse(r.from), until: Date.parse(r.until) }));
		CHARTS.forEach((c, i) => this.charts[i].set(
			rows.map((r) => ({ from: r.from, until: r.until, title: rowTitle(r, c.words(r)), values: r.minutes > 0 ? c.values(r) : null })), c.unit(stepWords(rows))));
		this.#showTable(rows);
	}

	/** The same figures as text. */
	#showTable(rows) {
		draw(this.table, [rows], () => [h("summary", null, "These figures as a table"),
			h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures over time" }, h("table", { class: "table" },
				h("caption", { class: "hidden" }, "Figures over time, newest first"),
				h("thead", null, h("tr", null, ["From", "Waiting at most", "Done", "Failed", "Wait p50 <", "Wait p99 <"].map((t) => h("th", { scope: "col" }, t)))),
				h("tbody", null, rows.toReversed().map((r) => h("tr", null, h("td", null, absolute(r.from)),
					[r.backlog, r.done, r.failed].map((n) => h("td", { class: "number" }, count(n))),
					[r.wait_p50_below_ms, r.wait_p99_below_ms].map((ms) => h("td", { class: "number" }, duration(ms))))))))]);
	}
}
