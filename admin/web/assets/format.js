// Formats numbers, durations and times for people.
import { h, setAttribute, setText } from "./dom.js";

const GROUPED = new Intl.NumberFormat("en");
const ABSOLUTE = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });

let ahead_ms = 0;       // how far the clock of Redis is ahead of this browser's

export function setServerTime(ms) {
	ahead_ms = ms - Date.now();
}

export function now() {
	return Date.now() + ahead_ms;
}

export function count(n) {
	return n === null || n === undefined ? "–" : GROUPED.format(n);
}

/** A rate for each minute: 3.2, 48, 12,480. */
export function rate(n) {
	if (n === null || n === undefined)
		return "–";
	return n > 0 && n < 10 ? n.toFixed(1) : GROUPED.format(Math.round(n));
}

export function plural(n, one, many = `${one}s`) {
	return `${count(n)} ${n === 1 ? one : many}`;
}

const UNITS = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];

/** 340 ms, 1.2 s, 45 s, 3 min 12 s, 2 h 5 min, 3 d 4 h. */
export function duration(ms) {
	if (ms === null || ms === undefined || Number.isNaN(ms))
		return "–";
	if (ms < 1000)
		return `${Math.max(0, Math.round(ms))} ms`;
	if (ms < 10000)
		return `${(ms / 1000).toFixed(1)} s`;
	const i = UNITS.findIndex(([, size]) => ms >= size);
	const [unit, size] = UNITS[i];
	const next = UNITS[i + 1];
	const rest = next ? Math.floor((ms % size) / next[1]) : 0;
	return `${Math.floor(ms / size)} ${unit}${rest > 0 ? ` ${rest} ${next[0]}` : ""}`;
}

export function bytes(n) {
	if (n === null || n === undefined)
		return "–";
	if (n < 1024)
		return `${n} B`;
	return n < 1048576 ? `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KiB` : `${(n / 1048576).toFixed(n < 10485760 ? 1 : 0)} MiB`;
}

/** Coarse; the full time is in the tooltip. */
function ago(ms) {
	const past = now() - ms, apart = Math.abs(past);
	if (apart < 1000)
		return "now";
	const unit = apart < 60000 ? 1000 : apart < 3600000 ? 60000 : apart < 86400000 ? 60000 * 5 : 3600000;
	const text = wholeSeconds(Math.floor(apart / unit) * unit);
	return past > 0 ? `${text} ago` : `in ${text}`;
}

export function absolute(ms) {
	return ABSOLUTE.format(new Date(ms));
}

/** A <time> with the age, which tick() keeps up to date, and the full time as tooltip. */
export function time(value) {
	const node = h("time");
	setTime(node, value);
	return node;
}

export function setTime(node, value) {
	const ms = typeof value === "string" ? Date.parse(value) : value;
	if (ms === null || ms === undefined || Number.isNaN(ms)) {
		setAttribute(node, "data-at", null);
		setText(node, "–");
		return;
	}
	setAttribute(node, "data-at", ms);
	setAttribute(node, "datetime", new Date(ms).toISOString());
	setAttribute(node, "title", absolute(ms));
	setText(node, ago(ms));
}

/** For durations that tick() updates every second: 4 s, not 4.0 s. */
export function wholeSeconds(ms) {
	return ms < 1000 ? "0 s" : duration(Math.floor(ms / 1000) * 1000).replace(".0 s", " s");
}

/** How long something has been running; tick() counts on until the next call. */
export function setElapsed(node, since_ms) {
	setAttribute(node, "data-since", since_ms);
	setText(node, since_ms === null || since_ms === undefined ? "–" : wholeSeconds(now() - since_ms));
}

export function tick() {
	for (const node of document.querySelectorAll("time[data-at]"))
		setText(node, ago(Number(node.dataset.at)));
	for (const node of document.querySelectorAll("[data-since]"))
		setElapsed(node, Number(node.dataset.since));
}

/** The progress that a handler reported, such as "40% page 2". */
export function progressText(progress) {
	return progress ? `${progress.percent}% ${progress.text ?? ""}`.trim() : "–";
}
