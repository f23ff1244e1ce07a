// Shortcuts of the keyboard, and the dialog that lists them. None fires while the user types, while a dialog is open, or with Ctrl, Alt or Meta.
import { inform } from "./dialogs.js";
import { h } from "./dom.js";

const OFF_KEY = "quredis-keys-off";
const SECOND_MS = 2000;         // how long the second key of "g o" may take
const TYPED = "input:not([type=checkbox]), select, textarea, [contenteditable]";

const main = document.getElementById("main");

/** The rows of all tables of the page, from top to bottom. */
function rows() {
	return [...main.querySelectorAll(".table tbody tr")].filter((row) => row.checkVisibility());
}

function currentRow() {
	return document.activeElement?.closest(".table tbody tr") ?? null;
}

/** Its link or button, which opens it; the row itself if it has none. */
function focusRow(row) {
	const target = row.querySelector("th a, th button, td.message button") ?? row;
	if (target === row)
		row.tabIndex = -1;
	target.focus({ preventScroll: true });
	row.scrollIntoView({ block: "nearest" });
}

function step(by) {
	const all = rows(), at = all.indexOf(currentRow());
	const next = at < 0 ? all[by > 0 ? 0 : all.length - 1] : all[at + by];
	if (next)
		focusRow(next);
}

function mark(range) {
	currentRow()?.querySelector(".mark input")?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: range }));
}

function search() {
	const field = [...main.querySelectorAll("input[type=search]")].find((input) => input.checkVisibility());
	field?.focus();
	field?.select();
}

const visit = (route) => () => { location.hash = route; };

const SHORTCUTS = [
	{ keys: "/", says: "Go to the search field; Escape leaves it", act: search },
	{ keys: "j", says: "Next row of a table; Enter opens it", act: () => step(1) },
	{ keys: "k", says: "Previous row", act: () => step(-1) },
	{ keys: "x", says: "Select or unselect the row", act: () => mark(false) },
	{ keys: "X", says: "Select all rows since the last selected one", act: () => mark(true) },
	{ keys: "g o", says: "Overview", act: visit("#/") },
	{ keys: "g f", says: "In flight", act: visit("#/flight") },
	{ keys: "g d", says: "Dead letters", act: visit("#/dead-letters") },
	{ keys: "g w", says: "Workers", act: visit("#/nodes") },
	{ keys: "g s", says: "Schedules", act: visit("#/schedules") },
	{ keys: "g h", says: "Health", act: visit("#/health") },
	{ keys: "?", says: "This list", act: showHelp },
];

/** Single keys get in the way of users who dictate, so they can be turned off. */
function areOff() {
	return localStorage.getItem(OFF_KEY) !== null;
}

export function showHelp() {
	const switched = (e) => (e.target.checked ? localStorage.removeItem(OFF_KEY) : localStorage.setItem(OFF_KEY, "1"));
	inform("Keyboard shortcuts", [
		h("dl", { class: "pairs keys" }, SHORTCUTS.map(({ keys, says }) => [h("dt", null, keys.split(" ").map((key) => [h("kbd", null, key), " "])), h("dd", null, says)])),
		h("label", { class: "mark-box" }, h("input", { type: "checkbox", checked: !areOff(), onchange: switched }), h("span", null, "Shortcuts are on"))]);
}

let first = null, first_at = 0;

function onKey(e) {
	if (e.key === "Escape" && e.target.matches("main input[type=search]") && e.target.value === "")
		e.target.blur();
	if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || e.target.closest(TYPED) || document.querySelector("dialog[open]") || areOff())
		return;
	const keys = first !== null && e.timeStamp - first_at < SECOND_MS ? `${first} ${e.key}` : e.key;
	const found = SHORTCUTS.find((s) => s.keys === keys);
	first = SHORTCUTS.some((s) => s.keys.startsWith(`${keys} `)) ? keys : null;
	first_at = e.timeStamp;
	if (found) {
		e.preventDefault();
		found.act();
	}
}

/** Also takes the link that skips the bar: its address would be that of a page. */
export function listen() {
	addEventListener("keydown", onKey);
	document.querySelector(".skip").addEventListener("click", (e) => {
		e.preventDefault();
		main.focus();
	});
	document.getElementById("keys").addEventListener("click", showHelp);
}
