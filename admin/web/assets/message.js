// Shows a message, or another field of bytes, as text, as indented JSON or as hexadecimal digits, and copies it.
import { toast } from "./dialogs.js";
import { h } from "./dom.js";
import { bytes } from "./format.js";
import { hex, plainHex, pretty, visible, visibleLine } from "./visible.js";

const TEXT_MOST = 262144;

function forms(value) {
	const json = value.binary ? null : pretty(value.text);
	const cut = value.text.length > TEXT_MOST ? `${value.text.slice(0, TEXT_MOST)}…` : value.text;
	return [
		...(json === null ? [] : [["JSON", () => visible(json)]]),
		[value.binary ? "Escaped" : "Text", () => (value.binary ? cut : visible(cut))],
		["Hex", () => hex(value.bytes)],
	];
}

async function copy(value) {
	try {
		await navigator.clipboard.writeText(value.binary ? plainHex(value.bytes) : value.text);
		toast("ok", value.binary ? "Copied, as hexadecimal digits" : "Copied");
	} catch {
		toast("bad", "The browser does not allow this page to use the clipboard");
	}
}

/** value: a result of field() of visible.js; heading: the level of its title on the page. */
export function viewer(label, value, heading = "h2") {
	const shown = h("pre", { class: "bytes", tabindex: "0", "aria-label": label });
	const kinds = forms(value);
	const show = (i) => {
		shown.textContent = kinds[i][1]();
		buttons.forEach((b, k) => b.setAttribute("aria-pressed", k === i));
	};
	const buttons = kinds.map(([name], i) => h("button", { type: "button", class: "tab", onclick: () => show(i) }, name));
	show(0);
	return h("section", { class: "viewer" },
		h("div", { class: "viewer-head" }, h(heading, null, label), h("span", { class: "muted" }, bytes(value.bytes.length) + (value.binary ? ", not UTF-8" : "")),
			h("span", { class: "tabs", role: "group", "aria-label": "Show as" }, buttons),
			h("button", { type: "button", class: "tab", onclick: () => copy(value) }, "Copy")), shown);
}

/** The beginning of the text, on one line. */
export function preview(value) {
	return value === null ? "–" : value.text === "" ? "(empty)" : visibleLine(value.text);
}

const HEADER = /^quredis\/1 (?!w=)[^\n]*\n/;		// of a producer: its id and its limits, which have columns of their own; not a wrapper

/** The beginning of a message, without the header line before it. */
export function messagePreview(value) {
	return preview(value === null || value.binary || !HEADER.test(value.text) ? value : { ...value, text: value.text.replace(HEADER, "") });
}
