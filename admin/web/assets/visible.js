// Shows untrusted bytes so that they are readable and harmless: characters without a visible shape, and those that change the
// direction of writing, are shown as escapes.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const HIDDEN_IN_LINE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const NAMED = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0" };

function written(c) {
	const code = c.charCodeAt(0);
	return NAMED[c] ?? (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`);
}

/** Keeps line breaks and tabs. */
export function visible(text) {
	return text.replace(HIDDEN, written);
}

export function visibleLine(text, most = 200) {
	const line = text.slice(0, most).replace(HIDDEN_IN_LINE, written);
	return text.length > most ? `${line}…` : line;
}

function unbase64(text) {
	return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** A field of a document: {text, bytes, binary}, or null. Bytes that are not UTF-8 are in KEY_base64. */
export function field(object, key) {
	if (typeof object[`${key}_base64`] === "string") {
		const bytes = unbase64(object[`${key}_base64`]);
		return { bytes, binary: true, text: escaped(bytes) };
	}
	const value = object[key];
	if (value === null || value === undefined)
		return null;
	return { text: String(value), bytes: new TextEncoder().encode(String(value)), binary: false };
}

function escaped(bytes) {
	let out = "";
	for (const b of bytes)
		out += b >= 32 && b < 127 ? String.fromCharCode(b) : NAMED[String.fromCharCode(b)] ?? `\\x${b.toString(16).padStart(2, "0")}`;
	return out;
}

/** In the format of hexdump -C. */
export function hex(bytes, most = 16384) {
	const lines = [];
	for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
		const part = bytes.subarray(at, Math.min(at + 16, bytes.length));
		const digits = [...part].map((b) => b.toString(16).padStart(2, "0"));
		const left = digits.slice(0, 8).join(" ").padEnd(23);
		const right = digits.slice(8).join(" ").padEnd(23);
		const letters = [...part].map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("");
		lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  |${letters}|`);
	}
	if (bytes.length > most)
		lines.push(`… ${bytes.length - most} more bytes`);
	return lines.join("\n");
}

export function plainHex(bytes) {
	return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** Indented JSON, or null if it is not JSON. Every token stays as it was written, also a number of twenty digits. */
export function pretty(text) {
	if (!/^\s*[[{]/.test(text) || text.length > 262144)
		return null;
	try {
		JSON.parse(text);
	} catch {
		return null;
	}
	return indented(text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g));
}

function indented(tokens) {
	let out = "", depth = 0;
	const line = () => `\n${"  ".repeat(depth)}`;
	tokens.forEach((token, i) => {
		const opens = token === "{" || token === "[", closes = token === "}" || token === "]";
		const empty = opens && /[\]}]/.test(tokens[i + 1]);
		if (closes && !/[[{]/.test(tokens[i - 1].slice(0, 1))) {
			depth--;
			out += line();
		}
		out += token === ":" ? ": " : token;
		if (opens && !empty) {
			depth++;
			out += line();
		} else if (token === ",") {
			out += line();
		}
	});
	return out;
}
