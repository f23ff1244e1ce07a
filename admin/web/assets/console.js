// The frame: chooses the page, shows whether the console and Redis answer, and refreshes ages every second.
import { SESSION_KEY, get, hasSession, takeCode } from "./api.js";
import { askToSignIn, askToSignOut, toast } from "./dialogs.js";
import { draw, h, setAttribute, setText } from "./dom.js";
import { absolute, count, tick, wholeSeconds } from "./format.js";
import { badge, icon } from "./icons.js";
import { listen } from "./keys.js";
import { DeadLettersPage } from "./page_dead_letters.js";
import { FlightPage } from "./page_flight.js";
import { HealthPage } from "./page_health.js";
import { NodesPage } from "./page_nodes.js";
import { OverviewPage } from "./page_overview.js";
import { QueuePage } from "./page_queue.js";
import { RecordPage } from "./page_record.js";
import { SchedulesPage } from "./page_schedules.js";
import { parseRoute } from "./route.js";
import { AWAY, store } from "./store.js";
import { Stream } from "./stream.js";

const SEED = "30m";

// The first page that accepts a route gets it. A page stays while its key is the same, and receives each new route.
const PAGES = [
	{ nav: "overview", takes: (p) => p.length === 0, page: OverviewPage, key: () => "overview" },
	{ nav: "overview", takes: (p) => p[0] === "queue" && p[1], page: QueuePage, key: (p) => `queue ${p[1]}` },
	{ nav: "flight", takes: (p) => p[0] === "flight", page: FlightPage, key: () => "flight" },
	{ nav: "dead-letters", takes: (p) => p[0] === "dead-letters" && p[1] && p[2], page: RecordPage, key: (p) => p.join(" ") },
	{ nav: "dead-letters", takes: (p) => p[0] === "dead-letters", page: DeadLettersPage, key: (p) => `dead-letters ${p[1] ?? ""}` },
	{ nav: "nodes", takes: (p) => p[0] === "nodes", page: NodesPage, key: () => "nodes" },
	{ nav: "schedules", takes: (p) => p[0] === "schedules", page: SchedulesPage, key: () => "schedules" },
	{ nav: "health", takes: (p) => p[0] === "health", page: HealthPage, key: () => "health" },
];
const NAV = [["overview", "#/", "Overview"], ["flight", "#/flight", "In flight"], ["dead-letters", "#/dead-letters", "Dead letters"],
	["nodes", "#/nodes", "Workers"], ["schedules", "#/schedules", "Schedules"], ["health", "#/health", "Health"]];

const main = document.getElementById("main");
const away = document.getElementById("away");
const links = new Map();
let shown = null;

function makeNav() {
	for (const [id, href, title] of NAV) {
		const number = h("span", { class: "number" });
		links.set(id, { link: h("a", { href }, title, number), number });
		document.getElementById("nav").append(links.get(id).link);
	}
	links.get("schedules").link.hidden = true;
}

/** A console without schedules has no place in the bar for them. */
async function showSchedules() {
	try {
		const all = await get("schedules");
		links.get("schedules").link.hidden = all.length === 0;
	} catch {
		// the link stays hidden until the session begins
	}
}

function notFound() {
	return { element: h("div", { class: "empty" }, h("h1", null, "Page not found"), h("a", { href: "#/" }, "Overview")), title: "Page not found" };
}

function go() {
	const route = parseRoute(location.hash);
	const found = PAGES.find((p) => p.takes(route.path));
	const key = found?.key(route.path) ?? location.hash;
	if (shown?.key === key) {
		shown.page.go?.(route);
		return;
	}
	shown?.page.close?.();
	const first = shown === null;
	shown = { key, page: found ? new found.page(route) : notFound() };
	main.replaceChildren(shown.page.element);
	document.title = `${shown.page.title} · quredis`;
	for (const [id, { link }] of links)
		setAttribute(link, "aria-current", id === found?.nav ? "page" : null);
	shown.page.refresh?.();
	if (!first) {
		scrollTo(0, 0);
		main.focus({ preventScroll: true });
	}
}

function showChange() {
	shown?.page.refresh?.();
	const dead_letters = store.queues.reduce((n, q) => n + (q.escape_size ?? 0), 0);
	setText(links.get("dead-letters").number, dead_letters > 0 ? count(dead_letters) : "");
	const ill = (store.health?.queues ?? []).filter((q) => q.status !== "healthy").length;
	draw(links.get("health").number, [ill], () => (ill > 0 ? h("span", { class: "nav-warn" }, icon("warn"), count(ill)) : null));
}

// ---- the connection ----

const LINKS = {
	connecting: ["unknown", "connecting"], live: ["ok", "live"], redis: ["bad", "no Redis"], console: ["bad", "no answer"],
	session: ["warn", "sign in"], full: ["warn", "no figures"],
};

function showLink() {
	const { state, since, why } = store.link;
	const [level, word] = LINKS[state];
	draw(document.getElementById("link"), [state], () => badge(level, word));
	away.hidden = !(state in AWAY);
	document.body.classList.toggle("stale", state in AWAY);
	draw(away, state in AWAY ? [state, since, why] : "", () => (state in AWAY ? [
		h("strong", { title: `since ${absolute(since)}` }, AWAY[state]), " for ", h("span", { "aria-hidden": "true", id: "away-for" }), ". ",
		store.known ? "Showing the last known data; reconnecting." : "Reconnecting.", why ? h("span", { class: "why" }, ` ${why}`) : null] : null));
	showAwayFor();
}

function showAwayFor() {
	const node = document.getElementById("away-for");
	if (node)
		setText(node, wholeSeconds(Date.now() - store.link.since));
}

function onEvent(name, data) {
	if (name === "overview") {
		store.take(data);
		store.setLink("live", "");
	} else if (name === "failure") {
		store.setLink("redis", data.error);
	}
}

let asked = false;

async function onLink(state, why) {
	store.setLink(state, why);
	if (state !== "session" || asked)
		return;
	asked = true;
	await askToSignIn(hasSession() ? "The session has ended." : "Sign in to see the queues.");
	asked = false;
}

async function seed() {
	try {
		const stats = await get("queue/stats", { since: SEED });
		store.seed(Array.isArray(stats) ? stats : [stats]);
	} catch {
		// the lines of figures then begin now
	}
}

// ---- the session ----

const session_button = document.getElementById("session");

function showSession() {
	setText(session_button, hasSession() ? "Sign out" : "Sign in");
}

async function enter() {
	try {
		await takeCode();
	} catch (e) {
		toast("bad", `The code was not accepted: ${e.message}`);
	}
}

/** The session began or ended: load the page again with it, or without it. */
function anew() {
	shown?.page.close?.();
	shown = null;
	go();
	seed();
	showSchedules();
}

// ---- start ----

makeNav();
// what sticks below the bar sticks below this line, too
new ResizeObserver(() => document.documentElement.style.setProperty("--away", `${away.offsetHeight}px`)).observe(away);
showLink();
await enter();
go();
showSession();
const stream = new Stream("api/v1/events", onEvent, onLink);
addEventListener("hashchange", async () => {
	await enter();
	go();
});
addEventListener("session", () => {
	showSession();
	anew();
	stream.restart();
});
addEventListener("storage", (e) => e.key === SESSION_KEY && dispatchEvent(new Event("session")));		// another tab
addEventListener("online", () => stream.hurry());
session_button.addEventListener("click", () => (hasSession() ? askToSignOut() : askToSignIn("Sign in to see and change queues.")));
store.addEventListener("change", showChange);
store.addEventListener("link", showLink);
store.addEventListener("back", () => shown?.page.reread?.());
listen();
setInterval(() => {
	tick();
	showAwayFor();
	shown?.page.tick?.();
}, 1000);
stream.run();
seed();
showSchedules();
