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

/** Builds the contents of `node` again only if its data changed. */
export function draw(node, made_of, build) {
	const signature = typeof made_of === "string" ? made_of : JSON.stringify(made_of);
	if (drawn.get(node) === signature)
		return;
	drawn.set(node, signature);
	node.replaceChildren(...[build()].flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
}

/** Runs `change`, and restores the focus if moving elements removed it. */
export function keepFocus(change) {
	const focused = document.activeElement;
	change();
	if (focused && focused !== document.activeElement && focused.isConnected && focused !== document.body)
		focused.focus({ preventScroll: true });
}
