// The server's events, read with fetch, since EventSource cannot send the session's header. Listeners receive each event, and
// each change of the connection: "live", "redis" (the console answers, Redis does not), "console" (no
// answer), "full" (the console answers, but has no stream left for this page), "session" (the console requires one).
import { errorOf, headers } from "./api.js";

const FIRST_MS = 500;
const LONGEST_MS = 10000;
const SILENCE_MS = 30000;

export class Stream {
	constructor(path, on_event, on_link) {
		this.path = path;
		this.on_event = on_event;
		this.on_link = on_link;
		this.delay_ms = FIRST_MS;
		this.buffer = "";
	}

	async run() {
		for (;;) {
			try {
				await this.#once();
				this.on_link("console", "the console closed the connection");
			} catch (e) {
				this.on_link(e.link ?? "console", e.message);
			}
			await this.#pause();
		}
	}

	/** Reconnects now, for instance because there is a session. */
	hurry() {
		this.delay_ms = FIRST_MS;
		this.wake?.();
	}

	restart() {
		this.abort?.abort();
		this.hurry();
	}

	#pause() {
		const wait_ms = this.delay_ms * (0.75 + Math.random() / 2);
		this.delay_ms = Math.min(LONGEST_MS, this.delay_ms * 2);
		return new Promise((resolve) => {
			this.wake = resolve;
			setTimeout(resolve, wait_ms);
		});
	}

	async #once() {
		this.abort = new AbortController();
		const response = await this.#open();
		this.buffer = "";
		const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
		for (;;) {
			const { value, done } = await this.#read(reader);
			if (done)
				return;
			this.#take(value);
		}
	}

	async #open() {
		let response;
		try {
			response = await fetch(this.path, { headers: headers(), signal: this.abort.signal, cache: "no-store" });
		} catch {
			throw new Error("the console does not answer");
		}
		if (response.ok)
			return response;
		const error = await errorOf(response);
		error.link = { 401: "session", 429: "full", 503: "full" }[response.status] ?? "console";
		throw error;
	}

	/** A connection that is silent for longer than the interval of heartbeats is dead. */
	async #read(reader) {
		const watch = setTimeout(() => this.abort.abort(), SILENCE_MS);
		try {
			return await reader.read();
		} catch {
			throw new Error("the connection to the console broke");
		} finally {
			clearTimeout(watch);
		}
	}

	#take(text) {
		const blocks = (this.buffer + text).split("\n\n");
		this.buffer = blocks.pop();
		for (const block of blocks)
			this.#event(block);
	}

	#event(block) {
		let name = "message", data = "";
		for (const line of block.split("\n")) {
			if (line.startsWith("event:"))
				name = line.slice(6).trim();
			else if (line.startsWith("data:"))
				data += line.slice(5);
		}
		if (data === "")
			return;
		this.delay_ms = FIRST_MS;
		this.on_event(name, JSON.parse(data));
	}
}
