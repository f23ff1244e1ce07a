// Small charts of figures over time. Each also contains its figures as text.
import { s, setAttribute } from "./dom.js";

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

/** Stacked bars, one for each minute: [{title, parts: [n, …]}]. css has the class of each part, lowest first. */
export function bars(minutes, css, height = 96) {
	const step = 12, width = step * minutes.length;
	const top = nice(Math.max(1, ...minutes.map((m) => m.parts.reduce((a, b) => a + b, 0))));
	const y = (n) => (n / top) * (height - 2);
	const lines = [0.5, 1].map((f) => s("line", { class: "rule", x1: 0, x2: width, y1: height - y(top * f), y2: height - y(top * f) }));
	const stacks = minutes.map((m, i) => {
		let at = height;
		const parts = m.parts.map((n, k) => {
			const tall = n > 0 ? Math.max(1, y(n)) : 0;
			at -= tall;
			return s("rect", { class: css[k], x: i * step + 1.5, width: step - 3, y: at, height: tall });
		});
		const title = s("title");
		title.textContent = m.title;
		return s("g", { class: "stack" }, s("rect", { class: "hit", x: i * step, width: step, y: 0, height }), ...parts, title);
	});
	return { top, element: s("svg", { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines, ...stacks) };
}

/** The next number of the series 1, 2, 5, 10, 20, 50 … */
function nice(n) {
	const ten = 10 ** Math.floor(Math.log10(n));
	return [1, 2, 5, 10].map((f) => f * ten).find((v) => v >= n);
}
