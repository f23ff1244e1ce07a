// All requests to the server: documents, actions, and the session that they need.

export const SESSION_KEY = "quredis-session";
const OLD_KEY = "quredis-token";
const PATIENCE_MS = 30000;

/** status 0: no answer. */
export class ApiError extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

// A session has two secrets: a cookie, which no script can read, and this key, which no other port of the host gets.
// Only the server knows whether the session is still valid.

export function hasSession() {
	return localStorage.getItem(SESSION_KEY) !== null;
}

export function headers() {
	return hasSession() ? { "X-Quredis-Session": localStorage.getItem(SESSION_KEY) } : {};
}

/** scheme: Bearer for the token, Code for a code that `quredis web` printed. Rejects if the server does not accept it. */
async function signIn(scheme, secret) {
	localStorage.setItem(SESSION_KEY, (await ask("POST", "session", {}, null, { Authorization: `${scheme} ${secret}` })).key);
	dispatchEvent(new Event("session"));
}

/** The user may have typed a code or the token. */
export async function signInWith(secret) {
	try {
		await signIn("Bearer", secret);
	} catch (e) {
		if (e.status !== 401)
			throw e;
		await signIn("Code", secret);
	}
}

/** Takes the code out of the address bar and opens a session with it. The code works once, but it need not stay visible. */
export async function takeCode() {
	const found = /[#&]code=([0-9a-f]+)/.exec(location.hash);
	sessionStorage.removeItem(OLD_KEY);
	if (!found)
		return;
	history.replaceState(null, "", `${location.pathname}${location.search}#/`);
	await signIn("Code", found[1]);
}

export async function signOut() {
	try {
		await ask("POST", "session/end");
	} finally {
		localStorage.removeItem(SESSION_KEY);
		dispatchEvent(new Event("session"));
	}
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

/** The document of the error says what an action did before it failed. */
export async function errorOf(response) {
	let document = null;
	try {
		document = await response.json();
	} catch {
		// another program answered, not the console
	}
	const error = new ApiError(response.status, document?.error || `the server answered ${response.status} ${response.statusText}`);
	error.document = document;
	return error;
}

async function ask(method, path, params, signal, more = {}, noted = false) {
	let response;
	const signals = [AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])];
	try {
		response = await fetch(`api/v1/${path}${query(params)}`,
			{ method, headers: { ...headers(), ...more }, signal: AbortSignal.any(signals), cache: "no-store", credentials: "same-origin" });
	} catch (e) {
		if (signal?.aborted)
			throw e;
		throw new ApiError(0, e.name === "TimeoutError" ? "the console took too long to answer" : "the console does not answer");
	}
	if (!response.ok)
		throw await errorOf(response);
	try {
		const document = await response.json();
		return noted ? { document, note: response.headers.get("Quredis-Note") ?? "" } : document;
	} catch {
		throw new ApiError(0, "the connection broke during the answer");
	}
}

export const get = (path, params, signal) => ask("GET", path, params, signal);
/** Also what the command said beside its document: { document, note }. */
export const getWithNote = (path, params, signal) => ask("GET", path, params, signal, {}, true);
export const post = (path, params) => ask("POST", path, params);
