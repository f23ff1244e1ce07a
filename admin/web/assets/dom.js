// Creates and changes elements. Text enters the page only as text nodes; nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function give(node, props) {
	for (const [name, value] of Object.entries(props ?? {})) {
		if (value === null || value === undefined || value === false)
			continue;
		if (name.startsWith("on"))
			node.addEventListener(name.slice(2), value);
		else
			node.setAttribute(name, value === true ? "" : value);
	}
}

/** An element: h("a", {href, class, onclick}, "text", child, [children]). */
export function h(tag, props, ...children) {
	const node = document.createElement(tag);
	give(node, props);
	node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
	return node;
}

export function s(tag, props, ...children) {
	const node = document.createElementNS(SVG, tag);
	give(node, props);
	node.append(...children);
	return node;
}

/** Sets the text only if it differs, so that unchanged text causes no layout and no announcement by a screen reader. */
export function setText(node, text) {
	const value = text === null || text === undefined ? "" : String(text);
	if (node.textContent !== value)
		node.textContent = value;
}

export function setAttribute(node, name, value) {
	if (value === null || value === undefined || value === false)
		node.removeAttribute(name);
	else if (node.getAttribute(name) !== String(value))
		node.setAttribute(name, value);
}

const drawn = new WeakMap();

const FOCUSABLE = "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), summary, [tabindex]:not(main)";

function focusables(root) {
	return [...root.querySelectorAll(FOCUSABLE)].filter((e) => e.checkVisibility());
}

function nameOf(e) {
	return `${e.tagName} ${e.getAttribute("aria-label") ?? e.getAttribute("href") ?? e.textContent}`;
}

function hasFocus(e) {
	return e.isConnected && e.checkVisibility() && !e.disabled;
}

/**
 * Remembers where the focus is, before a change that may remove it. The result, called after the change, puts the focus back; or, if that element is gone, on
 * the one in `holder()` that has its name or its place, or on the nearest one before it. holder: what takes its place; null: nothing does.
 */
export function rememberFocus(holder = () => null) {
	const focused = document.activeElement;
	if (focused === null || focused === document.body || focused.id === "main")
		return () => {};
	const inside = holder(), at = inside ? focusables(inside).indexOf(focused) : -1, name = nameOf(focused);
	const all = focusables(document.body), before = all.slice(0, all.indexOf(focused));
	return () => {
		if (document.activeElement !== document.body && document.activeElement !== null)
			return;
		const place = holder(), now = place ? focusables(place) : [];
		const next = hasFocus(focused) ? focused : now.find((e) => nameOf(e) === name) ?? now[Math.min(at, now.length - 1)] ?? before.findLast(hasFocus);
		(next ?? document.getElementById("main")).focus({ preventScroll: true });
	};
}

/** Builds the contents of `node` again only if its data changed. */
export function draw(node, made_of, build) {
	const signature = typeof made_of === "string" ? made_of : JSON.stringify(made_of);
	if (drawn.get(node) === signature)
		return;
	drawn.set(node, signature);
	const restore = node.contains(document.activeElement) ? rememberFocus(() => node) : null;
	node.replaceChildren(...[build()].flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
	restore?.();
}
