// Icons beside a word. The shape has the same meaning as the colour.
import { h, s } from "./dom.js";

const SHAPES = {
	ok: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Zm3.2 3.9L7 9.6 4.9 7.5 3.8 8.6 7 11.8l5.3-5.3Z",
	warn: "M8 1.2 15.4 14H.6Zm-.9 4.6.3 4.2h1.2l.3-4.2ZM8 10.9a.9.9 0 1 0 0 1.8.9.9 0 0 0 0-1.8Z",
	bad: "M5 1h6l4 4v6l-4 4H5l-4-4V5Zm.9 3.8L4.8 5.9 6.9 8l-2.1 2.1 1.1 1.1L8 9.1l2.1 2.1 1.1-1.1L9.1 8l2.1-2.1-1.1-1.1L8 6.9Z",
	off: "M3.5 2h3v12h-3Zm6 0h3v12h-3Z",
	none: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13ZM8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z",
	idle: "M8 4.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7Zm0 1.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4Z",
	run: "M4 2.2v11.6L13.5 8Z",
	unknown: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Zm0 2.4c-1.5 0-2.5.9-2.6 2.2h1.5c.1-.6.5-.9 1-.9.7 0 1.1.4 1.1.9 0 .6-.4.8-.9 1.2-.6.4-1 .8-1 1.7v.3h1.5V9c0-.5.3-.7.8-1.1.7-.5 1.2-1 1.2-2 0-1.2-1-2-2.6-2ZM7.9 10a.9.9 0 1 0 0 1.9.9.9 0 0 0 0-1.9Z",
};

export function icon(name) {
	return s("svg", { class: `icon icon-${name}`, viewBox: "0 0 16 16", width: 12, height: 12, "aria-hidden": "true" },
		s("path", { d: SHAPES[name] ?? SHAPES.unknown, "fill-rule": "evenodd" }));
}

/** level: ok warn bad off none idle run unknown. */
export function badge(level, word, why) {
	return h("span", { class: `badge badge-${level}`, title: why || null }, icon(level), h("span", null, word));
}

// The levels of health with their badges, the worst first: the order of `quredis health`.
export const HEALTH = { unhealthy: "bad", unknown: "unknown", degraded: "warn", healthy: "ok" };
const WORST_FIRST = Object.keys(HEALTH);

/** A smaller one is worse; a queue without a report is behind all others. */
export const healthRank = (status) => (status === undefined ? WORST_FIRST.length : WORST_FIRST.indexOf(status));
