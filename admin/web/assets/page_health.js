// The health of each queue with its reasons, and the findings of `quredis doctor` on demand.
import { get } from "./api.js";
import { draw, h, rememberFocus, setAttribute, setText } from "./dom.js";
import { count, duration, plural, setTime } from "./format.js";
import { badge, HEALTH, healthRank } from "./icons.js";
import { column, command, empty, notice, queueLink, setNotice } from "./parts.js";
import { store } from "./store.js";
import { Table, textCell } from "./table.js";
import { FIGURES } from "./words.js";

const F = FIGURES.queue;
const seconds = (s) => (s === undefined || s === null ? "–" : duration(s * 1000));

function timeCell(of) {
	return (td, q) => {
		if (!td.firstChild)
			td.append(document.createElement("time"));
		setTime(td.firstChild, of(q));
	};
}

/** When the supervisor judged the queue; below, when it will again. */
function asOfCell(td, q) {
	const next = document.createElement("time");
	timeCell((of) => of.at)(td, q);
	setTime(next, q.next_at);
	td.replaceChildren(td.firstChild, ...(q.next_at ? [h("span", { class: "muted next" }, "next ", next)] : []));
}

const COLUMNS = [
	{ id: "queue", title: "Queue", header: true, value: (q) => q.queue, cell: (td, q) => queueLink(td, q.queue) },
	{ id: "status", title: "Status", css: "state", value: (q) => healthRank(q.status), cell: (td, q) => draw(td, q.status, () => badge(HEALTH[q.status] ?? "unknown", q.status)) },
	{ id: "reasons", title: "Reasons", css: "reasons", cell: (td, q) => draw(td, q.reasons ?? [], () =>
		((q.reasons ?? []).length > 0 ? h("ul", null, q.reasons.map((r) => h("li", null, reasonText(r)))) : h("span", { class: "muted" }, "–"))) },
	{ id: "as_of", title: "As of", css: "time", cell: asOfCell,
		hint: "When the supervisor judged the queue: all figures are of that look. Below: when it looks again, at the latest" },
	{ id: "since", title: "Since", css: "time", cell: timeCell((q) => q.since) },
	{ id: "ingress", ...column(F["ingress.size"]), css: "number", value: (q) => q.ingress?.size, first: "down", cell: textCell((q) => count(q.ingress?.size)) },
	{ id: "oldest", ...column(F["ingress.oldest_age"]), css: "number second", value: (q) => q.ingress?.oldest_age, first: "down", cell: textCell((q) => seconds(q.ingress?.oldest_age)) },
	{ id: "average", ...column(F["ingress.avg_age"]), css: "number fourth", value: (q) => q.ingress?.avg_age, first: "down", cell: textCell((q) => seconds(q.ingress?.avg_age)) },
	{ id: "longest", ...column(F["transit.oldest_age"]), css: "number fourth", value: (q) => q.transit?.oldest_age, first: "down", cell: textCell((q) => seconds(q.transit?.oldest_age)) },
	{ id: "failed", ...column(F["failures.failed"], ", in percent of ", F["failures.attempts"]), css: "number second", value: failedOf, first: "down",
		cell: (td, q) => {
			setText(td, failedOf(q) === undefined ? "–" : `${failedOf(q).toFixed(1)} %`);
			td.title = q.failures?.text ?? "";
		} },
	{ id: "stuck", ...column(F["ingress.stuck_count"], ", plus ", F["transit.stuck_count"]), css: "number second", value: (q) => stuckOf(q), first: "down", cell: textCell((q) => count(stuckOf(q))) },
	{ id: "escape", ...column(F["escape.size"]), css: "number second", value: (q) => q.escape?.size, first: "down", cell: textCell((q) => count(q.escape?.size)) },
	{ id: "workers", ...column(F["workers.active"], ", of ", F["workers.alive"]), title: F["workers.alive"].title, css: "number fourth", cell: textCell((q) => (q.workers ? `${count(q.workers.active)}/${count(q.workers.alive)}` : "–")) },
];

// With an open breaker: when workers try the handler again.
function reasonText(reason) {
	return reason.next_attempt_ms === undefined ? reason.text : `${reason.text}; next attempt in ${duration(reason.next_attempt_ms)}`;
}

// Percent; undefined: no attempt ended.
function failedOf(q) {
	return q.failures?.attempts > 0 ? q.failures.failed * 100 / q.failures.attempts : undefined;
}

function stuckOf(q) {
	const stuck = [q.ingress?.stuck_count, q.transit?.stuck_count].filter((n) => n !== undefined);
	return stuck.length > 0 ? stuck.reduce((a, b) => a + b, 0) : undefined;
}

const SEVERITY = { error: "bad", warning: "warn", note: "ok", ok: "ok" };
const FINDINGS = [
	{ id: "severity", title: "Severity", cell: (td, f) => draw(td, f.severity, () => badge(SEVERITY[f.severity] ?? "unknown", f.severity)) },
	{ id: "what", title: "What", header: true, css: "finding", cell: (td, f) => draw(td, [f.queue, f.what, f.advice], () =>
		[h("span", null, f.queue ? `${f.queue}: ` : "", f.what), f.advice && h("span", { class: "advice muted" }, f.advice)]) },
	{ id: "where", title: "Where", css: "where second", cell: textCell((f) => f.where ?? "–") },
	{ id: "check", title: "Check", css: "check third", cell: textCell((f) => f.check) },
];

export class HealthPage {
	title = "Health";

	constructor() {
		this.overall = h("span");
		this.rest = h("div");
		this.table = new Table({ name: "health", caption: "Health of queues", columns: COLUMNS, key: (q) => q.queue });
		this.ask = h("button", { type: "button", onclick: () => this.#ask() }, "Run doctor");
		this.found = h("span", { class: "muted", role: "status" });
		this.notice = notice();
		this.findings = new Table({ name: "findings", caption: "Findings of quredis doctor", columns: FINDINGS, key: (f) => f.key });
		this.findings.element.hidden = true;
		this.element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", null, "Health"), this.overall), this.rest, this.table.element,
			h("div", { class: "title" }, h("h2", null, "Doctor"), this.found, h("div", { class: "grow" }), this.ask),
			h("p", { class: "muted" }, "quredis doctor checks the configuration, the handlers, the unit, Redis and every key of the queues, and says what to do. It changes nothing."),
			this.notice, this.findings.element);
	}

	refresh() {
		const health = store.health, queues = health?.queues ?? [];
		this.table.element.hidden = queues.length === 0;
		this.table.update(queues);
		draw(this.overall, [health?.status], () => (health ? badge(HEALTH[health.status] ?? "unknown", health.status) : null));
		draw(this.rest, [store.known, queues.length === 0], () => (store.known && queues.length === 0
			? empty("No supervisor reports the health of these queues", h("p", null, "In quredis.conf, then ", h("code", null, "quredis reload"), ":"),
				command('health = { enabled = true; thresholds = { ingress_max = 500; dlq_max_warning = 100; stuck_age = "2h"; }; };')) : null));
	}

	async #ask() {
		const restore = rememberFocus();
		setAttribute(this.ask, "disabled", true);
		setText(this.found, "Checking …");
		try {
			const findings = await get("doctor");
			this.findings.element.hidden = findings.length === 0;
			this.findings.update(findings.map((f, i) => ({ ...f, key: `${i} ${f.check} ${f.what}` })));
			const n = (severity) => findings.filter((f) => f.severity === severity).length;
			setText(this.found, `${plural(n("error"), "error")}, ${plural(n("warning"), "warning")}`);
			setNotice(this.notice, "");
		} catch (e) {
			setText(this.found, "");
			setNotice(this.notice, `The checks could not run: ${e.message}`);
		}
		setAttribute(this.ask, "disabled", null);
		restore();
	}
}
