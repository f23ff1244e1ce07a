// Actions: ask for confirmation, send the request, report the result.
import { ApiError, post } from "./api.js";
import { askToSignIn, confirm, progress, toast } from "./dialogs.js";
import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { store } from "./store.js";

const IDS_AT_ONCE = 50;
const WAIT_MS = 700;

/** Shows a toast while the answer takes longer than WAIT_MS. */
async function postPatiently(path, params) {
	let shown = null;
	const timer = setTimeout(() => { shown = toast("wait", "Waiting for the answer …"); }, WAIT_MS);
	try {
		return await post(path, params);
	} finally {
		clearTimeout(timer);
		shown?.remove();
	}
}

/** Sends a POST in a session; asks the user to sign in if there is none. Returns null if the user cancels. */
async function send(path, params, post_it = postPatiently) {
	for (;;) {
		try {
			return await post_it(path, params);
		} catch (e) {
			if (!(e instanceof ApiError) || e.status !== 401)
				throw e;
			if (!await askToSignIn("Sign in to make changes."))
				return null;
		}
	}
}

/** The server stops an action that takes too long. Sends it again while each request makes progress. */
async function sendWhole(path, params) {
	let done = 0;
	for (;;) {
		const result = await send(path, params);
		if (result === null)
			return done > 0 ? { count: done, interrupted: true } : null;
		done += result.count;
		if (!result.interrupted || result.count === 0)
			return { ...result, count: done };
		toast("ok", `${count(done)} so far; continuing`);
	}
}

/** An action whose answer did not come may have taken effect: Redis executes later what it has received. */
function failureOf(e) {
	return [0, 502, 504].includes(e.status)
		? `The action may have failed: ${e.message}. Check whether it took effect before you repeat it.` : `The action failed: ${e.message}`;
}

/** Runs an action and reports the result. Resolves with its answer, or null if it failed. */
async function report(action, describe) {
	try {
		const result = await action();
		if (result !== null)
			toast(result.count === 0 ? "bad" : "ok", describe(result));
		return result;
	} catch (e) {
		toast("bad", failureOf(e));
		return null;
	}
}

/**
 * Asks first. The answer is void if the connection was lost or came back meanwhile: Redis may have come back empty, or in an earlier state.
 */
async function isSure(question) {
	const asked = store.link;
	if (!await confirm(question))
		return false;
	if (store.link === asked)
		return true;
	toast("bad", "Nothing was changed: while the question was on the screen, the connection was lost or came back, so its figures may be wrong. Look again, and repeat the action.");
	return false;
}

const countOrNo = (n, what) => (n === 0 ? `No ${what}` : plural(n, what));
const moved = (queue) => (r) => `${countOrNo(r.count, "message")} of ${queue} moved back to ingress${left(r)}`;
const deleted = (queue, what) => (r) => `${countOrNo(r.count, what)} of ${queue} deleted${left(r)}`;
const left = (r) => (r.interrupted ? "; interrupted: repeat the action to continue" : r.held > 0 ? `; ${count(r.held)} stay with live workers` : "");

export function pause(queue) {
	return report(() => send("queue/pause", { queue }), () => `${queue} is paused on every host. Running handlers finish.`);
}

export function resume(queue) {
	return report(() => send("queue/resume", { queue }), () => `${queue} is resumed`);
}

// ---- whole lists ----

const LISTS = { ingress: "waiting messages", transit: "messages in flight", escape: "dead letters", delayed: "delayed messages" };

export async function retryList(queue, list, n) {
	const sure = await isSure({
		title: `Move all ${LISTS[list]} of ${queue} back to ingress?`, text: `${plural(n, "message")} will move back to ingress, in order.`,
		detail: list === "transit" ? "Messages that a live worker holds stay. The others are marked as redelivered."
			: list === "delayed" ? "They run before they are due." : "They return as new messages: no attempt is charged.",
		yes: `Retry ${count(n)}` });
	return sure ? report(() => sendWhole("queue/retry", { queue, list }), moved(queue)) : null;
}

/** Asks the server how many messages the action would affect. */
export async function purgeList(queue, list) {
	const would = await dryRun("queue/purge", { queue, list, dry_run: true });
	if (would === null)
		return null;
	const n = plural(would.count, "message");
	const sure = await isSure({
		title: `Delete all ${LISTS[list]} of ${queue}?`, text: `${n} will be deleted.`,
		detail: list === "transit" ? "Messages that a live worker holds stay." : list === "escape" ? "Their records are deleted, too." : null,
		yes: `Delete ${count(would.count)}`, again: `${n} of ${queue} will be deleted. This cannot be undone.` });
	return sure ? report(() => sendWhole("queue/purge", { queue, list }), deleted(queue, "message")) : null;
}

async function dryRun(path, params) {
	try {
		return await send(path, params);
	} catch (e) {
		toast("bad", `The action failed: ${e.message}`);
		return null;
	}
}

// ---- one waiting or delayed message ----

const NEXT = (r) => (r.count > 0 ? "The message is fetched next" : "The message has left the list");

export async function runNext(queue, list, id) {
	const sure = await isSure({ title: `Run ${id} next?`, yes: "Run next",
		text: list === "delayed" ? `It returns to ${queue} before it is due, in front of all waiting messages.` : `It moves in front of all other waiting messages of ${queue}.` });
	return sure ? report(() => sendSome("queue/message/retry", { queue, list, id }), NEXT) : null;
}

export async function deleteMessage(queue, list, id) {
	const sure = await isSure({ title: `Delete ${id}?`, text: `This message of ${queue} will not run.`, yes: "Delete",
		again: `The message ${id} of ${queue} will be deleted. This cannot be undone.` });
	return sure ? report(() => sendSome("queue/message/rm", { queue, list, id }), (r) => (r.count > 0 ? "The message is deleted" : "The message has left the list")) : null;
}

// ---- one message in flight ----

export async function cancelMessage(queue, id, worker, again) {
	const sure = await isSure({ title: `End the run of ${id}?`, yes: again ? "End and run again" : "Cancel the message",
		text: `The worker ends the handler of this message of ${queue} with all its processes.`,
		detail: `${again ? "It runs again, with the same attempt." : "It becomes a dead letter of class Cancelled."} `
			+ "Other messages of a persistent handler go back and run again." });
	const result = (r) => (r.result === "escaped" ? "The message is cancelled: it is a dead letter now" : "The run was ended, and the message runs again");
	return sure ? report(() => send("queue/message/cancel", again ? { queue, id, worker, retry: true } : { queue, id, worker }), result) : null;
}

// ---- schedules ----

export async function runSchedule({ name, queue, overlap }) {
	const sure = await isSure({ title: `Push the message of ${name} now?`, yes: "Run now", text: `${queue} gets it behind all messages that wait. The ticks of the schedule stay as they are.`,
		detail: overlap ? null : "It is refused while an earlier message of the schedule is in the queue (overlap = false)." });
	return sure ? report(() => send("schedule/run", { schedule: name }), () => `The message of ${name} is in ${queue}`) : null;
}

// ---- operations ----

export async function stopOperation(queue, id, what) {
	const sure = await isSure({ title: `Stop the operation ${id}?`, text: what, yes: "Stop it",
		detail: "It stops after its next message. What has moved does not come back; the same command continues it." });
	return sure ? report(() => send("queue/operation/stop", { queue, stop: id }), (r) => (r.running ? "The operation stops after its next message" : "The operation is stopped")) : null;
}

// ---- dead letters ----

/** Some of them may be gone since. Then the answer is an error with the number of those that were found; but not if the whole queue is gone. */
async function sendSome(path, params) {
	try {
		return await send(path, params);
	} catch (e) {
		if (e.status !== 404 || !store.queue(params.queue))
			throw e;
		return { count: e.document?.count ?? 0 };
	}
}

/** Sends many ids in several requests, and adds up the answers. */
async function sendIds(path, queue, ids) {
	const sum = { count: 0, missing: 0 };
	for (let at = 0; at < ids.length; at += IDS_AT_ONCE) {
		const some = ids.slice(at, at + IDS_AT_ONCE);
		const result = await sendSome(path, { queue, id: some });
		if (result === null)
			return at > 0 ? sum : null;
		sum.count += result.count;
		if (result.interrupted)
			return { ...sum, interrupted: true };
		sum.missing += some.length - result.count;
	}
	return sum;
}

const gone = (tell) => (r) => tell(r) + (r.missing > 0 ? `; ${count(r.missing)} no longer existed` : "");

export async function retryDeadLetters(queue, ids, what = "") {
	const n = plural(ids.length, "dead letter");
	const sure = await isSure({ title: `Retry ${n}?`, text: `${n} of ${queue}${what} will move back to ingress as new messages: no attempt is charged.`,
		yes: `Retry ${count(ids.length)}` });
	return sure ? report(() => sendIds("queue/dlq/retry", queue, ids), gone(moved(queue))) : null;
}

export async function deleteDeadLetters(queue, ids, what = "") {
	const n = plural(ids.length, "dead letter");
	const sure = await isSure({ title: `Delete ${n}?`, text: `${n} of ${queue}${what} will be deleted with their records.`,
		yes: `Delete ${count(ids.length)}`, again: `${n} of ${queue} will be deleted. This cannot be undone.` });
	return sure ? report(() => sendIds("queue/dlq/rm", queue, ids), gone(deleted(queue, "dead letter"))) : null;
}

// ---- all dead letters that match a filter ----

const words = (filter) => Object.entries(filter).map(([name, value]) => `, ${name} ${value}`).join("");

/**
 * The server works for some seconds at a time, and remembers how far it came: asks again until it is complete, the user stops it, or too many messages fail
 * again. The first request begins anew, so that it acts on what the question said: an earlier operation that was stopped had another bound, and perhaps another
 * period. n: how many match, for a server that began without a count because counting would take long.
 */
async function sendOperation(path, params, title, n) {
	let stopped = false, done = 0, result = null, total = null;
	const box = progress(title, () => { stopped = true; });
	try {
		while (!stopped && !result?.complete) {
			const next = await send(path, result === null ? { ...params, anew: true } : params, post);
			if (next === null)
				return result === null ? null : { ...result, count: done };
			result = next;
			done = result.done ?? done + result.count;
			// Only what was interrupted goes on: not what failed, even if the answer came as the server ended its slice of work.
			if (!result.interrupted || (result.complete === undefined && result.count === 0))
				break;
			total = result.total ?? total ?? n;
			box.show(`${count(done)}${total === null ? "" : ` of ${count(total)}`}${result.failed_again > 0 ? `, ${count(result.failed_again)} failed again` : ""}`, done, total);
		}
		// A supervisor does the work, whether a request waits for it or not.
		if (stopped && result?.operation && result.complete === false)
			await send("queue/operation/stop", { queue: params.queue, stop: result.operation }, post);
		return { ...result, count: done };
	} finally {
		box.close();
	}
}

const more = (r) => (r.interrupted && r.complete === false ? `; stopped (${count(r.done)}${r.total === null ? "" : ` of ${count(r.total)}`} are done)`
	: r.failed_again > 0 ? `; ${count(r.failed_again)} of them failed again${r.same_cause > 0 ? `, ${count(r.same_cause)} with the same cause as before` : ""}` : "");

function paceFields() {
	const number = (id, label, hint, props) => h("label", { class: "pace" }, label, " ", h("input", { id, type: "number", min: 0, placeholder: hint, "aria-label": label, ...props }));
	const fields = { canary: number("pace-canary", "Canary", "none", { min: 1, max: 1000 }), rate: number("pace-rate", "Messages a second", "50", { min: 1, max: 1000000 }),
		max_failures: number("pace-failures", "Failures allowed", "0", {}) };
	const value = (label) => label.querySelector("input").value;
	const box = h("fieldset", null, h("legend", null, "Canary, pace and failures (optional)"), Object.values(fields),
		h("p", { class: "muted" }, "Canary: the oldest go first, this many, and the others follow only if all of them are done. The retry stops if more messages than allowed become dead "
			+ "letters again. If all three are empty, all messages move at once, and the retry does not watch them."));
	return { box, params: () => ({ canary: value(fields.canary), rate: value(fields.rate) && `${value(fields.rate)}/s`, max_failures: value(fields.max_failures) }) };
}

/** "40 dead letters", "12 dead letters that match class HTTP503, text refused" */
const meant = (filter, n) => (n === null ? "All dead letters" : plural(n, "dead letter")) + (words(filter) === "" ? "" : ` that match${n === 1 ? "es" : ""} ${words(filter).slice(2)}`);

/** filter: as of the API; {}: all. n: how many match, a moment ago; null: not known */
export async function retryAllDeadLetters(queue, filter, n) {
	const which = words(filter), pace = paceFields(), all = which === "" ? "all " : "";
	const sure = await isSure({ title: `Retry ${all || "these "}dead letters of ${queue}?`, fields: pace.box,
		text: `${meant(filter, n)} will move back to ingress, the oldest first, as new messages: no attempt is charged.`, yes: `Retry ${n === null ? "all that match" : all + count(n)}` });
	return sure ? report(() => sendOperation("queue/dlq/retry", { queue, all: true, ...filter, ...pace.params() }, `Retry of ${queue}${which}`, n),
		(r) => moved(queue)({ ...r, interrupted: false }) + more(r)) : null;
}

export async function deleteAllDeadLetters(queue, filter, n) {
	const which = words(filter), all = which === "" ? "all " : "";
	const sure = await isSure({ title: `Delete ${all || "these "}dead letters of ${queue}?`,
		text: `${meant(filter, n)} will be deleted with their records.`, detail: "To save them first: quredis dlq export", yes: `Delete ${n === null ? "all that match" : all + count(n)}`,
		again: `${meant(filter, n)} of ${queue} will be deleted. This cannot be undone.` });
	return sure ? report(() => sendOperation("queue/dlq/rm", { queue, all: true, ...filter }, `Deletion of ${queue}${which}`, n),
		(r) => deleted(queue, "dead letter")({ ...r, interrupted: false }) + more(r)) : null;
}
