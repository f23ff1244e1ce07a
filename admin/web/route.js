// Addresses of pages: #/letters/mail?class=HandlerExit
import { query } from "./api.js";

export function parseRoute(hash) {
	const [path, rest] = hash.replace(/^#\/?/, "").split("?");
	return { path: path.split("/").filter((p) => p !== "").map(decodeURIComponent), params: new URLSearchParams(rest ?? "") };
}

/** href(["letters", "mail"], {class: "HandlerExit"}) */
export function href(path, params) {
	return `#/${path.map(encodeURIComponent).join("/")}${query(params)}`;
}
