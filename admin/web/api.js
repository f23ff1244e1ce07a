// The one way to the server: documents, actions, and the token that those need.

const KEY = "quredis-token";
const PATIENCE_MS = 30000;

/** status 0: nobody answered. */
export class ApiError extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

/** The token came behind the address; it must not stay there, where it is seen, bookmarked and sent on. */
export function takeToken() {
	const found = /[#&]token=([^&]+)/.exec(location.hash);
	if (!found)
		return;
	sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
	history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

export function token() {
	return sessionStorage.getItem(KEY);
}

export function setToken(text) {
	if (text)
		sessionStorage.setItem(KEY, text);
	else
		sessionStorage.removeItem(KEY);
	dispatchEvent(new Event("token"));
}

export function headers() {
	return token() ? { Authorization: `Bearer ${token()}` } : {};
}

/** {a: 1, id: [x, y], b: null} -> "?a=1&id=x&id=y" */
export function query(params) {
	const parts = new URLSearchParams();
	for (const [key, value] of Object.entries(params ?? {}))
		for (const one of Array.isArray(value) ? value : [value])
			if (one !== null && one !== undefined && one !== "")
				parts.append(key, one);
	return parts.size > 0 ? `?${parts}` : "";
}

/** What an action did before it failed comes along, as its document. */
export async function errorOf(response) {
	let document = null;
	try {
		document = await response.json();
	} catch {
		// whoever answered is not the console
	}
	const error = new ApiError(response.status, document?.error || `the server answered ${response.status} ${response.statusText}`);
	error.document = document;
	return error;
}

async function ask(method, path, params, signal) {
	let response;
	const signals = [AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])];
	try {
		response = await fetch(`api/v1/${path}${query(params)}`,
			{ method, headers: headers(), signal: AbortSignal.any(signals), cache: "no-store", credentials: "same-origin" });
	} catch (e) {
		if (signal?.aborted)
			throw e;
		throw new ApiError(0, e.name === "TimeoutError" ? "the console took too long to answer" : "the console does not answer");
	}
	if (!response.ok)
		throw await errorOf(response);
	try {
		return await response.json();
	} catch {
		throw new ApiError(0, "the answer broke off");
	}
}

export const get = (path, params, signal) => ask("GET", path, params, signal);
export const post = (path, params) => ask("POST", path, params);
