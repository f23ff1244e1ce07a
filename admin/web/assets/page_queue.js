// One queue: its figures, the outcomes of its messages, and its lists.
import { pause, purgeList, resume, retryList } from "./actions.js";
import { get } from "./api.js";
import { bars } from "./chart.js";
import { draw, h, setAttribute, setText } from "./dom.js";
import { count, duration, now, rate } from "./format.js";
import { badge } from "./icons.js";
import { LISTS, MessageList } from "./messages.js";
import { empty, Figures, healthCell, notice, Poll, setNotice } from "./parts.js";
import { href } from "./route.js";
import { store } from "./store.js";

const STATS_MS = 5000;
const MINUTES = 60;
const OUTCOMES = [["done", "done"], ["retried", "retried"], ["escaped", "escaped"]];
const RARE = ["timed_out", "redelivered", "handed_back", "rescued", "claim_lost", "unrunnable", "expired", "purged", "archived", "discarded", "reconnected"];

function minutesOf(stats) {
	const by = new Map((stats.minutes ?? []).map((m) => [Math.floor(Date.parse(m.minute) / 60000), m.counters]));
	const end = Math.floor(now() / 60000);
	return Array.from({ length: MINUTES }, (_, i) => {
		const minute = end - MINUTES + 1 + i;
		const counters = by.get(minute) ?? {};
		const parts = OUTCOMES.map(([c]) => counters[c] ?? 0);
		const at = new Date(minute * 60000).toTimeString().slice(0, 5);
		return { parts, title: `${at}  ${OUTCOMES.map(([, name], k) => `${count(parts[k])} ${name}`).join(", ")}` };
	});
}

export class QueuePage {
	constructor(route) {
		this.name = route.path[1];
		this.title = this.name;
		this.figures = new Figures([["Waiting", "In ingress"], ["In flight", "Fetched by workers"], ["Delayed", "Retries, and messages pushed with a delay"],
			["Dead letters", "In escape", href(["letters", this.name])], ["Done a minute", "Over the last minute, all hosts"],
			["Failed a minute", "Failed attempts"], ["Oldest", "How long the oldest message has been waiting"], ["Workers", "Live workers / configured workers"]]);
		this.state = h("span");
		this.health = h("span", { class: "health-line" });
		this.switch = h("button", { type: "button", onclick: () => this.#switch() });
		this.chart = h("section", { class: "chart", "aria-labelledby": "chart" });
		this.durations = h("section", { class: "durations" });
		this.tabs = h("nav", { class: "lists", "aria-label": "Lists of the queue" });
		this.actions = h("div", { class: "list-actions" });
		this.notice = notice();
		this.holder = h("div");
		this.body = h("div", null, this.figures.element, h("div", { class: "side" }, this.chart, this.durations), this.tabs, this.actions, this.notice, this.holder);
		this.gone = h("div");
		this.element = h("div", { class: "page" },
			h("div", { class: "title" }, h("h1", null, this.name), this.state, this.health, h("div", { class: "grow" }), this.switch), this.gone, this.body);
		this.go(route);
		this.poll = new Poll((signal) => this.#askStats(signal), STATS_MS);
	}

	go(route) {
		const list = LISTS.some(([id]) => id === route.path[2]) ? route.path[2] : "ingress";
		if (list === this.list)
			return;
		this.list = list;
		this.messages?.close();
		this.messages = new MessageList(this.name, list, (text) => setNotice(this.notice, text));
		this.holder.replaceChildren(this.messages.element);
		this.refresh();
	}

	refresh() {
		const queue = store.queue(this.name);
		this.body.hidden = !queue;
		this.switch.hidden = !queue;
		draw(this.gone, [store.known, !queue], () => (store.known && !queue
			? empty(`There is no queue ${this.name}`, h("p", null, "It was destroyed, or no supervisor ever served it. A push does not create a queue."), h("a", { href: "#/" }, "All queues"))
			: !store.known ? h("p", { class: "muted loading" }, "Reading from Redis …") : null));
		if (queue)
			this.#show(queue);
	}

	#show(queue) {
		const age = queue.health?.ingress?.oldest_age;
		this.figures.set([queue.ingress_size, queue.transit_size, queue.delayed_size, queue.escape_size, rate(store.rate(queue, "done")), rate(store.rate(queue, "failed")),
			queue.ingress_size > 0 && age !== undefined ? duration(age * 1000) : "–", queue.served.length > 0 ? `${queue.alive}/${queue.wanted}` : "–"],
			["", "", "", queue.escape_size > 0 ? "some" : ""]);
		draw(this.state, queue.state, () => badge(queue.state.level, queue.state.word, queue.state.why));
		if (queue.health)
			healthCell(this.health, queue.health);
		setText(this.switch, queue.paused ? "Resume" : "Pause");
		setAttribute(this.switch, "class", queue.paused ? "primary" : null);
		this.#showTabs(queue);
		this.#showActions(queue);
		this.messages?.changed(queue[`${this.list}_size`] ?? queue.stats?.counters.done);
	}

	#showTabs(queue) {
		const sizes = LISTS.map(([id]) => queue[`${id}_size`]);
		draw(this.tabs, [this.list, sizes], () => LISTS.map(([id, title], i) =>
			h("a", { href: href(["queue", this.name, id]), "aria-current": id === this.list ? "page" : null }, title, h("span", { class: "number" }, sizes[i] === undefined ? "" : count(sizes[i])))));
	}

	#showActions(queue) {
		if (this.list === "done")
			return draw(this.actions, "done", () => h("span", { class: "muted" }, "The last messages that were done (done.keep)"));
		const n = queue[`${this.list}_size`];
		return draw(this.actions, [this.list, n > 0, queue[this.list], this.list !== "ingress" && n], () => [
			h("code", { class: "muted key" }, queue[this.list] ?? `${queue.ingress}:delayed`),
			this.list === "escape" && n > 0 && h("a", { class: "button", href: href(["letters", this.name]) }, "Causes and records"),
			this.list !== "ingress" && h("button", { type: "button", disabled: n === 0, onclick: () => this.#act(retryList, n) }, "Retry all"),
			h("button", { type: "button", class: "danger", disabled: n === 0, onclick: () => this.#act(purgeList, n) }, "Delete all")]);
	}

	async #act(action, n) {
		if (await action(this.name, this.list, n) !== null)
			this.messages.reload();
	}

	async #switch() {
		await (store.queue(this.name)?.paused ? resume : pause)(this.name);
	}

	// ---- outcomes ----

	async #askStats(signal) {
		try {
			const stats = await get("queue/stats", { queue: this.name, since: "1h" }, signal);
			this.#showChart(stats);
			this.#showDurations(stats);
		} catch (e) {
			if (!signal.aborted && store.link.state === "live")
				draw(this.chart, e.message, () => h("p", { class: "notice" }, `Reading the outcomes failed: ${e.message}`));
		}
	}

	#showChart(stats) {
		const minutes = minutesOf(stats);
		draw(this.chart, minutes, () => {
			const { top, element } = bars(minutes, ["bar-done", "bar-retried", "bar-escaped"]);
			const sums = OUTCOMES.map((_, k) => minutes.reduce((n, m) => n + m.parts[k], 0));
			return [h("div", { class: "chart-head" }, h("h2", { id: "chart" }, "Outcomes a minute"), h("span", { class: "muted" }, "last hour"),
				h("ul", { class: "legend" }, OUTCOMES.map(([id, name], k) => h("li", { class: `legend-${id}` }, `${name} `, h("b", null, count(sums[k])))))),
			h("div", { class: "chart-body" }, element, h("span", { class: "chart-top muted" }, count(top)),
				h("span", { class: "chart-from muted" }, minutes[0].title.slice(0, 5)), h("span", { class: "chart-to muted" }, minutes.at(-1).title.slice(0, 5)))];
		});
	}

	#showDurations(stats) {
		const rare = RARE.filter((c) => stats.counters[c] > 0);
		const half = Object.entries(stats.below_ms ?? {});
		draw(this.durations, [half, rare.map((c) => stats.counters[c])], () => [
			h("h2", null, "Handler run time"), h("dl", { class: "pairs" }, half.map(([p, ms]) =>
				[h("dt", null, `${p} <`), h("dd", null, duration(ms))])),
			rare.length > 0 && h("h2", null, "Also in the last hour"),
			rare.length > 0 && h("dl", { class: "pairs" }, rare.map((c) => [h("dt", null, c.replace("_", " ")), h("dd", null, count(stats.counters[c]))]))]);
	}

	close() {
		this.poll.stop();
		this.messages.close();
	}
}
