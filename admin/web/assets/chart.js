// Small charts of figures over time. Each also contains its figures as text.
import { draw, h, s, setAttribute, setText } from "./dom.js";

const WIDTH = 96, HEIGHT = 20;

/** A line of values; `set` replaces them. It has its own scale, which begins at 0. */
export class Sparkline {
	constructor(width = WIDTH, height = HEIGHT) {
		this.size = [width, height];
		this.area = s("path", { class: "spark-area" });
		this.line = s("path", { class: "spark-line" });
		this.element = s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none", "aria-hidden": "true" },
			this.area, this.line);
	}

	set(values) {
		if (this.values?.every((v, i) => v === values[i]))
			return;
		this.values = values;
		const [width, height] = this.size;
		const top = Math.max(...values, 1);
		this.element.classList.toggle("blank", values.every((v) => v === 0));
		const x = (i) => ((i * width) / (values.length - 1)).toFixed(1);
		const y = (v) => (height - 1.5 - (v / top) * (height - 3)).toFixed(1);
		const path = values.map((v, i) => `${i === 0 ? "M" : "L"}${x(i)} ${y(v)}`).join("");
		setAttribute(this.line, "d", path);
		setAttribute(this.area, "d", `${path}L${width} ${height}L0 ${height}Z`);
	}
}

/** The least "nice" number that is not below n: 1, 2, 5, 10, 20, 50 … */
export function niceNumber(n) {
	const ten = 10 ** Math.floor(Math.log10(Math.max(1, n)));
	return [1, 2, 5, 10].map((f) => f * ten).find((v) => v >= n);
}

const NICE_MS = [1, 2, 5, 10, 30, 60].map((m) => m * 60000).concat([2, 4, 6, 12, 24, 48, 72, 96].map((hours) => hours * 3600000));

/** The least round duration, of at least a minute, that is not below ms. */
export function niceDuration(ms) {
	return NICE_MS.find((v) => v >= ms) ?? ms;
}

const TICKS_MS = [600000, 1800000, 3600000, 3 * 3600000, 6 * 3600000, 12 * 3600000, 86400000];
const TICKS_MOST = 7, DAY_TICKS_MOST = 4;
const DAYS_MS = 36 * 3600000;		// a chart of more than that needs the days, too
const EDGE = 0.06;		// a label so near to an end of the axis would be cut off
const CLOCK = new Intl.DateTimeFormat("sv", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en", { weekday: "short" });

/** 14:05, or Mon 14:05. */
function timeLabel(ms, span_ms) {
	return span_ms > DAYS_MS ? `${DAY.format(ms)} ${CLOCK.format(ms)}` : CLOCK.format(ms);
}

/** Round times of this browser's zone between two times, a few of them. */
function timeTicks(from, until) {
	const span = until - from, most = span > DAYS_MS ? DAY_TICKS_MOST : TICKS_MOST;
	const step = TICKS_MS.find((t) => span / t <= most) ?? TICKS_MS.at(-1);
	const offset = new Date(until).getTimezoneOffset() * 60000;
	const first = Math.ceil((from - offset) / step) * step + offset;
	const ticks = Array.from({ length: Math.max(0, Math.floor((until - first) / step) + 1) }, (_, i) => first + i * step);
	return ticks.filter((t) => t - from >= EDGE * span && until - t >= EDGE * span);
}

const W = 1000, H = 100;       // units of the drawing, which is stretched to the room that it has

/** Positions in the drawing: of a time, and of a value. */
function scales(points, top) {
	const from = points[0].from, span = points.at(-1).until - from;
	return { x: (ms) => ((ms - from) / span) * W, y: (v) => H - (v / top) * (H - 1) };
}

/** A line with an area below it. It is interrupted where a value is not known; a lone value is a dot. */
function line(points, k, css, { x, y }) {
	const middle = (p) => x((p.from + p.until) / 2).toFixed(1);
	let path = "", area = "", run = [];
	const end = () => {
		if (run.length > 0) {
			const spots = run.map((p) => `${middle(p)} ${y(p.values[k]).toFixed(1)}`);
			path += `M${spots.join("L")}${run.length === 1 ? "h0" : ""}`;
			area += `M${middle(run[0])} ${H}L${spots.join("L")}L${middle(run.at(-1))} ${H}Z`;
		}
		run = [];
	};
	for (const p of points) {
		if (p.values?.[k] === null || p.values?.[k] === undefined)
			end();
		else
			run.push(p);
	}
	end();
	return [s("path", { class: `area-${css}`, d: area || "M0 0" }), s("path", { class: `line-${css}`, d: path || "M0 0" })];
}

/** Bars on top of each other, one pile for each point. */
function bars(points, series, { x, y }) {
	return points.filter((p) => p.values).flatMap((p) => {
		let at = H;
		const gap = Math.min(1, (x(p.until) - x(p.from)) / 5);
		return p.values.map((n, k) => {
			const tall = n > 0 ? Math.max(1, H - y(n)) : 0;
			at -= tall;
			return s("rect", { class: `bar-${series[k].id}`, x: x(p.from) + gap, width: Math.max(0.5, x(p.until) - x(p.from) - 2 * gap), y: at, height: tall });
		});
	});
}

/**
 * A chart of figures over time, with one axis of values, which begins at 0 and says its unit, and one of times. points: [{from, until, title,
 * values: [n or null, …] or null}]; null: nothing is known of that time, which is drawn as a gap. series: [{id, name}], in the order of the values.
 */
export class TimeChart {
	constructor({ id, title, series, kind, format, ceiling, sum }) {
		Object.assign(this, { series, kind, format, ceiling, sum });
		this.unit = h("span", { class: "muted chart-unit" });
		this.legend = h("ul", { class: "legend" });
		this.body = h("div", { class: "chart-body" });
		this.element = h("figure", { class: `chart chart-${id}`, "aria-labelledby": `chart-${id}` },
			h("figcaption", { class: "chart-head" }, h("h2", { id: `chart-${id}` }, title), this.unit, this.legend), this.body);
	}

	/** unit: of the axis of values, in words. */
	set(points, unit) {
		setText(this.unit, unit);
		draw(this.legend, [points], () => this.series.map(({ id, name }, k) =>
			h("li", { class: `legend-${id}` }, `${name} `, h("b", null, this.#figure(points, k)))));
		draw(this.body, [points, unit], () => (points.length === 0 ? h("p", { class: "muted" }, "No figures yet") : this.#draw(points)));
	}

	#figure(points, k) {
		const values = points.map((p) => p.values?.[k]).filter((v) => v !== null && v !== undefined);
		return this.format(values.length === 0 ? null : this.sum ? values.reduce((a, b) => a + b, 0) : Math.max(...values));
	}

	#top(points) {
		const pile = (values) => (this.kind === "bars" ? values.reduce((a, b) => a + b, 0) : Math.max(...values.map((v) => v ?? 0)));
		return this.ceiling(Math.max(1, ...points.filter((p) => p.values).map((p) => pile(p.values))));
	}

	#draw(points) {
		const top = this.#top(points), at = scales(points, top), from = points[0].from, until = points.at(-1).until;
		const rules = [0.5, 1].map((f) => s("line", { class: "rule", x1: 0, x2: W, y1: at.y(top * f), y2: at.y(top * f) }));
		const figures = this.kind === "bars" ? bars(points, this.series, at) : this.series.flatMap(({ id }, k) => line(points, k, id, at));
		const hits = points.map((p) => {
			const title = s("title");
			title.textContent = p.title;
			return s("rect", { class: p.values ? "hit" : "hit gap", x: at.x(p.from), width: at.x(p.until) - at.x(p.from), y: 0, height: H }, title);
		});
		return [
			h("div", { class: "axis-values", "aria-hidden": "true" }, [top, top / 2, 0].map((v) => h("span", null, this.format(v)))),
			s("svg", { class: "plot", viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...rules, ...figures, ...hits),
			h("div", { class: "axis-times", "aria-hidden": "true" }, timeTicks(from, until).map((t) => {
				const label = h("span", null, timeLabel(t, until - from));
				label.style.left = `${(100 * (t - from)) / (until - from)}%`;
				return label;
			})),
		];
	}
}
