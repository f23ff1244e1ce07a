// Dialogs that ask, and short messages (toasts).
import { hasSession, signInWith, signOut } from "./api.js";
import { h, rememberFocus } from "./dom.js";
import { absolute } from "./format.js";
import { notice, setNotice } from "./parts.js";
import { AWAY, store } from "./store.js";

// How long a message stays; one that waits, until its work has ended.
const TOAST_MS = { ok: 8000, bad: 16000, wait: null };

/** Shows a modal <dialog>. When it closes, the focus returns to where it was. closed: is called then. The dialog says if its figures are old. */
export function showDialog(dialog, closed = () => {}) {
	const restore = rememberFocus(), old = notice();
	const showAge = () => {
		const { state, since } = store.link;
		setNotice(old, state in AWAY ? `${AWAY[state]} since ${absolute(since)}: this may be out of date.` : "");
	};
	store.addEventListener("link", showAge);
	dialog.addEventListener("close", () => {
		store.removeEventListener("link", showAge);
		dialog.remove();
		restore();
		closed();
	});
	dialog.querySelector("form").prepend(old);
	showAge();
	document.body.append(dialog);
	dialog.showModal();
}

/** Opens a <dialog> and resolves with the value of the button that closed it; "" for Escape. */
function ask(title, body, buttons) {
	return new Promise((resolve) => {
		const form = h("form", { method: "dialog" }, h("h2", { id: "ask" }, title), body, h("div", { class: "buttons" }, buttons));
		const dialog = h("dialog", { "aria-labelledby": "ask" }, form);
		showDialog(dialog, () => resolve(dialog.returnValue));
	});
}

/** Shows something until the user closes it. */
export function inform(title, body) {
	return ask(title, body, [button("", "Close", null, { autofocus: true })]);
}

function button(value, text, css, props) {
	return h("button", { value, class: css, ...props }, text);
}

/**
 * Asks for confirmation. again: the text of a second question, for actions that cannot be undone; its button is at another
 * place, so that a double click does not confirm.
 */
export async function confirm({ title, text, detail, fields, yes, again }) {
	const body = [h("p", null, text), fields, detail && h("p", { class: "muted" }, detail)];
	const first = await ask(title, body, [
		button("", "Cancel", null, { autofocus: true }), button("yes", again ? `${yes}…` : yes, again ? "danger" : "primary")]);
	if (first !== "yes" || !again)
		return first === "yes";
	const second = await ask("Are you sure?", [h("p", { class: "grave" }, again)], [
		button("yes", `${yes} permanently`, "danger"), button("", "Keep", "primary", { autofocus: true })]);
	return second === "yes";
}

/** Asks for the token or a code until the console accepts it. false: the user cancelled. */
export async function askToSignIn(why) {
	for (;;) {
		const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, autofocus: true, id: "token-text" });
		const body = [h("p", null, why), h("label", { for: "token-text" }, "Token or code"), input,
			h("p", { class: "muted" }, "quredis web prints a code when it starts, and a new one on SIGUSR1. The token is in web.token_file; without that file, it was printed at the start.")];
		const said = await ask("Sign in", body, [button("", "Cancel", null, { formnovalidate: true }), button("yes", "Sign in", "primary")]);
		if (said !== "yes" || input.value === "")
			return false;
		try {
			await signInWith(input.value.trim());
			return true;
		} catch (e) {
			why = `The console rejected it: ${e.message}`;
		}
	}
}

export async function askToSignOut() {
	if (!hasSession() || !await confirm({ title: "Sign out?", text: "This signs out all tabs of this browser.", yes: "Sign out" }))
		return;
	try {
		await signOut();
	} catch (e) {
		toast("bad", `The console keeps the session until it expires: ${e.message}`);
	}
}

/** Shows how far long work is, with a button that stops it. Returns show(text, done, total) and close(). */
export function progress(title, on_stop) {
	const bar = h("progress", { "aria-label": title }), text = h("span", { role: "status" }, "begins …");
	const stop = h("button", { type: "button", class: "small" }, "Stop");
	const node = h("div", { class: "toast toast-ok working" }, h("div", null, h("b", null, title), bar, text), stop);
	stop.addEventListener("click", () => {
		stop.disabled = true;
		on_stop();
	});
	document.getElementById("toasts").append(node);
	return {
		show(said, done, total) {
			text.textContent = said;
			if (total > 0) {
				bar.max = total;
				bar.value = Math.min(done, total);
			}
		},
		close() {
			const restore = rememberFocus();
			node.remove();
			restore();
		},
	};
}

/** level: ok, bad, wait. */
export function toast(level, text) {
	const close = h("button", { type: "button", class: "close", "aria-label": "Dismiss" }, "×");
	const node = h("div", { class: `toast toast-${level}` }, h("span", null, text), close);
	close.addEventListener("click", () => {
		const restore = rememberFocus();
		node.remove();
		restore();
	});
	document.getElementById("toasts").append(node);
	if (TOAST_MS[level] !== null)
		setTimeout(() => node.remove(), TOAST_MS[level]);
	return node;
}
