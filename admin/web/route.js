// Addresses of pages: #/letters/mail?class=HandlerExit
import { query } from "./api.js";

/** What cannot be decoded is nobody's name. */
function decoded(part) {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

export function parseRoute(hash) {
	const [path, rest] = hash.replace(/^#\/?/, "").split("?");
	return { path: path.split("/").filter((p) => p !== "").map(decoded), params: new URLSearchParams(rest ?? "") };
}

/** href(["letters", "mail"], {class: "HandlerExit"}) */
export function href(path, params) {
	return `#/${path.map(encodeURIComponent).join("/")}${query(params)}`;
}
