// One queue: its figures, the outcomes of its messages, and its lists.
import { pause, purgeList, resume, retryList } from "./actions.js";
import { get } from "./api.js";
import { draw, h, setAttribute, setText } from "./dom.js";
import { count, duration, rate } from "./format.js";
import { badge } from "./icons.js";
import { LISTS, MessageList } from "./messages.js";
import { DONE, entry, FAILED, failureLines, Figures, healthCell, noQueue, notice, Poll, setNotice, WORKERS } from "./parts.js";
import { href } from "./route.js";
import { store } from "./store.js";
import { RangePicker, rangeOf, RANGES, Trend } from "./trend.js";
import { COUNTERS, FIGURES } from "./words.js";

const F = FIGURES.queue;

export class QueuePage {
	constructor(route) {
		this.name = route.path[1];
		this.title = this.name;
		this.figures = new Figures([entry([F["ingress.size"]]), entry([F["transit.size"]]), entry([F["delayed.size"]]),
			entry([F["escape.size"]], href(["dead-letters", this.name])), entry([DONE]), entry([FAILED]),
			entry([F["ingress.oldest_age"]]), entry(WORKERS)]);
		this.state = h("span");
		this.health = h("span", { class: "health-line" });
		this.switch = h("button", { type: "button", onclick: () => this.#switch() });
		this.picker = new RangePicker((range) => this.#choose(range));
		this.trend = new Trend();
		this.wrong = notice();
		this.durations = h("section", { class: "durations" });
		this.failures = h("section", { class: "causes failures", "aria-label": "Why attempts failed" });
		this.tabs = h("nav", { class: "lists", "aria-label": "Lists of the queue" });
		this.actions = h("div", { class: "list-actions" });
		this.notice = notice();
		this.holder = h("div");
		this.body = h("div", null, this.figures.element, this.picker.element, this.wrong,
			h("div", { class: "side" }, this.trend.element, this.durations), this.failures, this.tabs, this.actions, this.notice, this.holder);
		this.gone = h("div");
		this.element = h("div", { class: "page" },
			h("div", { class: "title" }, h("h1", null, this.name), this.state, this.health, h("div", { class: "grow" }), this.switch), this.gone, this.body);
		this.go(route);
	}

	go(route) {
		this.#setRange(rangeOf(route.params.get("range")));
		const list = LISTS.some(([id]) => id === route.path[2]) ? route.path[2] : "ingress";
		if (list === this.list)
			return this.refresh();
		this.list = list;
		this.messages?.close();
		this.messages = new MessageList(this.name, list, (text) => setNotice(this.notice, text));
		this.holder.replaceChildren(this.messages.element);
		this.refresh();
	}

	refresh() {
		const queue = store.queue(this.name);
		for (const node of [this.body, this.switch, this.state, this.health])
			node.hidden = !queue;
		draw(this.gone, [store.known, !queue, this.seen], () => (store.known && !queue ? noQueue(this.name, this.seen)
			: !store.known ? h("p", { class: "muted loading" }, "Reading from Redis …") : null));
		if (queue)
			this.#show(queue);
		if (queue && this.was_gone)
			this.reread();
		this.seen ||= Boolean(queue);
		this.was_gone = store.known && !queue;
	}

	/** After a time without data: the messages that were read before may be obsolete. */
	reread() {
		this.messages.reload();
		this.poll.now();
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
		draw(this.tabs, [this.list, sizes, this.range.id], () => LISTS.map(([id, title], i) =>
			h("a", { href: this.#address(id), "aria-current": id === this.list ? "page" : null }, title, h("span", { class: "number" }, sizes[i] === undefined ? "" : count(sizes[i])))));
	}

	#showActions(queue) {
		if (this.list === "done")
			return draw(this.actions, "done", () => h("span", { class: "muted" }, "The last messages that were done (done.keep)"));
		const n = queue[`${this.list}_size`];
		return draw(this.actions, [this.list, n > 0, queue[this.list], this.list !== "ingress" && n], () => [
			h("code", { class: "muted key" }, queue[this.list] ?? "delayed"),
			this.list === "escape" && n > 0 && h("a", { class: "button", href: href(["dead-letters", this.name]) }, "Causes and records"),
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

	// ---- the course over time ----

	#address(list) {
		return href(["queue", this.name, list], this.range === RANGES[0] ? {} : { range: this.range.id });
	}

	/** The address names the range, so that a reload or a link shows the same; the way back skips it. */
	#choose(range) {
		this.#setRange(range);
		history.replaceState(null, "", this.#address(this.list));
		this.refresh();
	}

	#setRange(range) {
		if (this.range === range)
			return;
		this.range = range;
		this.picker.set(range);
		this.poll?.stop();
		this.poll = new Poll((signal) => this.#askCourse(range, signal), range.every_ms);
	}

	async #askCourse(range, signal) {
		try {
			const [stats] = await Promise.all([get("queue/stats", { queue: this.name, since: range.id }, signal), this.trend.ask(this.name, range, signal)]);
			this.#showDurations(stats);
			draw(this.failures, [stats.failures, range.id], () => stats.failures?.classes && [
				h("h2", null, `Why attempts failed in the ${range.words}`), h("ol", null, failureLines(stats.failures))]);
			setNotice(this.wrong, "");
		} catch (e) {
			if (!signal.aborted && store.link.state === "live")
				setNotice(this.wrong, `Reading the figures of the ${range.words} failed: ${e.message}`);
		}
	}

	#showDurations(stats) {
		const rare = Object.keys(stats.counters).filter((c) => stats.counters[c] > 0 && !COUNTERS[c]?.routine);
		const half = Object.entries(stats.below_ms ?? {});
		draw(this.durations, [half, rare.map((c) => stats.counters[c]), this.range.id], () => [
			h("h2", null, "Handler run time"), h("dl", { class: "pairs" }, half.map(([p, ms]) =>
				[h("dt", null, `${p} <`), h("dd", null, duration(ms))])),
			rare.length > 0 && h("h2", null, `Also in the ${this.range.words}`),
			rare.length > 0 && h("dl", { class: "pairs" }, rare.map((c) => [h("dt", { title: COUNTERS[c]?.text }, c.replaceAll("_", " ")), h("dd", null, count(stats.counters[c]))]))]);
	}

	close() {
		this.poll.stop();
		this.messages.close();
	}
}
