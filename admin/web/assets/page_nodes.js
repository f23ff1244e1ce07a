// The supervisors of all hosts, and the workers of the one on this machine.
import { get } from "./api.js";
import { draw, h, setText } from "./dom.js";
import { bytes, count, now, plural, progressText, setElapsed, setTime } from "./format.js";
import { badge } from "./icons.js";
import { column, command, empty, notice, Poll, queueLink, setNotice, WORKERS as PROCESSES } from "./parts.js";
import { store } from "./store.js";
import { Table, textCell } from "./table.js";
import { FIGURES } from "./words.js";

const H = FIGURES.host;
const MEMORY = column(H["memory.workers"], ", plus ", H["memory.handlers"]);
const EVERY_MS = 2000;
const SILENT_MS = 30000;
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const aliveOf = (queue) => sum(Object.values(queue.workers ?? {}));
const memoryOf = (queue) => (queue.memory ? queue.memory.workers + queue.memory.handlers : null);
const SIGNS = { running: "run", idle: "idle", settling: "run", waiting: "off", starting: "unknown", connecting: "warn", stopping: "off" };

function timeCell(of) {
	return (td, row) => {
		if (!td.firstChild)
			td.append(document.createElement("time"));
		setTime(td.firstChild, of(row));
	};
}

function nodeState(node) {
	if (node.pid === null || now() - node.at_ms > SILENT_MS)
		return ["bad", "silent", "No report for 30 s: the supervisor is down, or cannot reach Redis"];
	const short = node.queues.filter((q) => aliveOf(q) < q.wanted).length;
	return short > 0 ? ["warn", "short of workers", `${plural(short, "queue")} with fewer workers than configured`] : ["ok", "reports", ""];
}

const NODES = [
	{ id: "node", title: "Node", header: true, value: (n) => n.node, cell: textCell((n) => n.node) },
	{ id: "state", title: "State", cell: (td, n) => draw(td, nodeState(n), () => badge(...nodeState(n))) },
	{ id: "workers", ...column(...PROCESSES), css: "number",
		cell: textCell((n) => (n.queues ? `${count(sum(n.queues.map(aliveOf)))}/${count(sum(n.queues.map((q) => q.wanted)))}` : "–")) },
	{ id: "running", ...column(H["workers.running"]), css: "number", cell: textCell((n) => count(sum((n.queues ?? []).map((q) => q.workers?.running ?? 0)))) },
	{ id: "queues", title: "Queues", css: "number second", cell: textCell((n) => count((n.queues ?? []).length)) },
	{ id: "restarts", ...column(H.restarts), css: "number second", cell: textCell((n) => count(sum((n.queues ?? []).map((q) => q.restarts ?? 0)))) },
	{ id: "memory", ...MEMORY, css: "number third",
		cell: textCell((n) => ((n.queues ?? []).length > 0 ? bytes(sum(n.queues.map((q) => memoryOf(q) ?? 0))) : "–")) },
	{ id: "started", title: "Started", css: "time second", cell: timeCell((n) => n.started) },
	{ id: "seen", title: "Report", css: "time", cell: timeCell((n) => n.at) },
	{ id: "pid", title: "Pid", css: "number third", cell: textCell((n) => n.pid ?? "–") },
	{ id: "version", title: "Version", css: "third", cell: textCell((n) => n.version ?? "–") },
];

const WORKERS = [
	{ id: "name", title: "Worker", header: true, value: (w) => w.name, cell: textCell((w) => w.name) },
	{ id: "queue", title: "Queue", value: (w) => w.queue, cell: (td, w) => queueLink(td, w.queue) },
	{ id: "state", title: "State", value: (w) => w.state, cell: (td, w) => draw(td, [w.state, w.draining, w.redis], () =>
		badge(w.redis === false ? "warn" : SIGNS[w.state] ?? "unknown", w.draining ? `${w.state}, draining` : w.state, w.redis === false ? "Not connected to Redis" : "")) },
	{ id: "running", title: "Running for", css: "number", value: (w) => w.running_ms, first: "down",
		cell: (td, w) => setElapsed(td, w.state === "running" && w.running_ms !== null && w.running_ms !== undefined ? w.asked_at - w.running_ms : null) },
	{ id: "progress", title: "Progress", value: (w) => w.progress?.percent ?? -1, first: "down", cell: textCell((w) => progressText(w.progress)) },
	{ id: "serial", title: "Messages", css: "number", hint: "Messages that it started", value: (w) => w.serial, first: "down", cell: textCell((w) => count(w.serial)) },
	{ id: "pid", title: "Pid", css: "number second", value: (w) => w.pid, cell: textCell((w) => w.pid) },
	{ id: "incarnation", title: "Incarnation", css: "id third", cell: textCell((w) => w.incarnation) },
];

/** The queues of each node: one line for each pair. */
const SERVED = [
	{ id: "queue", title: "Queue", header: true, value: (s) => s.name, cell: (td, s) => queueLink(td, s.name) },
	{ id: "node", title: "Node", value: (s) => s.node, cell: textCell((s) => s.node) },
	{ id: "state", title: "State", value: (s) => s.state, cell: (td, s) => draw(td, [s.state, s.reason, store.hold(s.state)],
		() => badge(store.hold(s.state).level, s.state, s.reason ?? store.hold(s.state).text)) },
	{ id: "workers", ...column(...PROCESSES), css: "number", value: aliveOf, first: "down", cell: textCell((s) => `${count(aliveOf(s))}/${count(s.wanted)}`) },
	{ id: "doing", title: "Doing", css: "long second", cell: textCell((s) => Object.entries(s.workers ?? {}).map(([state, n]) => `${n} ${state}`).join(", ") || "–") },
	{ id: "memory", ...MEMORY, css: "number third", value: memoryOf, first: "down", cell: textCell((s) => bytes(memoryOf(s))) },
	{ id: "restarts", ...column(H.restarts), css: "number second", value: (s) => s.restarts, first: "down", cell: textCell((s) => count(s.restarts)) },
];

export class NodesPage {
	title = "Workers";

	constructor() {
		this.nodes = new Table({ name: "nodes", caption: "Nodes", columns: NODES, key: (n) => n.node });
		this.served = new Table({ name: "served", caption: "Queues of each node", columns: SERVED, key: (s) => `${s.node} ${s.name}` });
		this.workers = new Table({ name: "workers", caption: "Workers of this host", columns: WORKERS, key: (w) => w.incarnation });
		this.pairs = h("section", null, h("h2", null, "Queues of each node"), this.served.element);
		this.none = h("div");
		this.here = h("span", { class: "muted" });
		this.notice = notice();
		this.element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", null, "Workers and nodes")), this.none, this.nodes.element,
			h("div", { class: "title" }, h("h2", null, "Workers of this host"), this.here), this.notice, this.workers.element,
			this.pairs);
		this.poll = new Poll((signal) => this.#ask(signal), EVERY_MS);
	}

	refresh() {
		const nodes = store.nodes;
		const silent = nodes.every((n) => n.pid === null);
		this.nodes.element.hidden = nodes.length === 0;
		this.pairs.hidden = nodes.every((n) => (n.queues ?? []).length === 0);
		draw(this.none, [store.known, silent], () => (store.known && silent
			? empty("No supervisor reports", h("p", null, "No quredisd reports to this Redis. On a machine with handlers:"), command("quredisd -t && quredisd")) : null));
		this.nodes.update(nodes);
		this.served.update(nodes.flatMap((n) => (n.queues ?? []).map((q) => ({ ...q, node: n.node }))));
	}

	async #ask(signal) {
		try {
			const status = await get("supervisor", null, signal);
			const asked_at = now();
			setNotice(this.notice, "");
			setText(this.here, `${status.node}, pid ${status.pid}, ${status.state}${status.keeper ? `, with its own Redis (pid ${status.keeper.redis_pid})` : ""}`);
			this.workers.element.hidden = status.workers.length === 0;
			this.workers.update(status.workers.map((w) => ({ ...w, asked_at })));
		} catch (e) {
			if (signal.aborted)
				return;
			this.workers.element.hidden = true;
			setText(this.here, "");
			setNotice(this.notice, `The supervisor of this host does not answer: ${e.message}`);
		}
	}

	close() {
		this.poll.stop();
	}
}
