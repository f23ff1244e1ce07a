// Addresses of pages: #/dead-letters/mail?class=HandlerExit
import { query } from "./api.js";

/** A part that cannot be decoded stays as it is. */
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

/** href(["dead-letters", "mail"], {class: "HandlerExit"}) */
export function href(path, params) {
	return `#/${path.map(encodeURIComponent).join("/")}${query(params)}`;
}
