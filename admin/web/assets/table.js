// A table that changes in place. A key identifies each row, a cell is written only if it differs, and order,
// selection, scroll position and focus survive each refresh.
import { h, rememberFocus, setAttribute, setText } from "./dom.js";

/**
 * Roles are written out, since browsers take them from a table whose rows phone.css lays out as cards.
 * columns: {id, title, cell(td, row), value(row) for sorting, css, header: the cell that names the row, wide: text}
 * key(row); selectable: rows have a checkbox, on_select(Set of keys); sort: [column id, "up" or "down"], remembered.
 */
export class Table {
	constructor({ name, caption, columns, key, selectable, on_select, sort, row_class }) {
		Object.assign(this, { name, columns, key, selectable, on_select, row_class });
		this.rows = [];
		this.lines = new Map();
		this.selected = new Set();
		this.sort = JSON.parse(sessionStorage.getItem(`sort-${name}`)) ?? sort ?? null;
		this.body = h("tbody", { role: "rowgroup" });
		this.heads = columns.map((c) => this.#head(c));
		this.all = selectable && h("input", { type: "checkbox", "aria-label": "select all shown rows", onchange: () => this.#markAll() });
		const all = this.all && h("th", { class: "mark", scope: "col", role: "columnheader" }, h("label", { class: "mark-box" }, this.all, h("span", { class: "phone-only" }, "Select all")));
		this.element = h("div", { class: "scroll", role: "region", "aria-label": caption },
			h("table", { class: `table table-${name}`, role: "table" }, h("caption", { class: "hidden" }, caption),
				h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, all, this.heads)), this.body));
		signOverflow(this.element);
		this.#showSort();
	}

	#head(column) {
		const title = column.value
			? h("button", { type: "button", class: "sorter", title: column.hint, onclick: () => this.#sortBy(column) }, column.title)
			: column.title || h("span", { class: "hidden" }, column.label ?? column.id);
		return h("th", { scope: "col", role: "columnheader", class: column.css, title: column.value ? null : column.hint }, title);
	}

	#sortBy(column) {
		const [id, way] = this.sort ?? [];
		const other = way === "up" ? "down" : "up";
		this.sort = [column.id, id === column.id ? other : column.first ?? "up"];
		sessionStorage.setItem(`sort-${this.name}`, JSON.stringify(this.sort));
		this.#showSort();
		this.update(this.rows);
	}

	#showSort() {
		this.columns.forEach((c, i) =>
			setAttribute(this.heads[i], "aria-sort", this.sort?.[0] === c.id ? { up: "ascending", down: "descending" }[this.sort[1]] : null));
	}

	#sorted(rows) {
		const column = this.columns.find((c) => c.id === this.sort?.[0]);
		if (!column)
			return rows;
		const way = this.sort[1] === "up" ? 1 : -1;
		const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
		return rows.map((row) => ({ row, value: column.value(row) ?? -Infinity }))
			.sort((a, b) => way * compare(a.value, b.value)).map((r) => r.row);
	}

	update(rows) {
		this.rows = rows;
		const keys = new Set(rows.map(this.key));
		const restore = this.#rememberFocus();
		for (const [key, line] of this.lines)
			if (!keys.has(key))
				this.#drop(key, line);
		this.#place(this.#sorted(rows));
		restore?.();
		this.#showMarks();
	}

	/** If the row with the focus leaves, the next row gets it, or the one before. */
	#rememberFocus() {
		const focused = document.activeElement, lines = [...this.body.children], at = lines.findIndex((line) => line.contains(focused));
		const here = (line) => line.isConnected && line.checkVisibility();
		return at < 0 ? null : rememberFocus(() => lines.slice(at).find(here) ?? lines.slice(0, at).findLast(here));
	}

	#drop(key, line) {
		line.remove();
		this.lines.delete(key);
		this.selected.delete(key);
	}

	#place(rows) {
		let next = this.body.firstElementChild;
		for (const row of rows) {
			const line = this.#line(row);
			if (line === next)
				next = next.nextElementSibling;
			else
				this.body.insertBefore(line, next);
		}
	}

	#line(row) {
		const key = this.key(row);
		if (!this.lines.has(key))
			this.lines.set(key, this.#newLine(key));
		const line = this.lines.get(key);
		setAttribute(line, "class", this.row_class?.(row));
		const skip = this.selectable ? 1 : 0;
		this.columns.forEach((c, i) => c.cell(line.children[i + skip], row));
		return line;
	}

	#newLine(key) {
		const cells = this.columns.map((c) => h(c.header ? "th" : "td",
			{ class: c.css, ...(c.header ? { scope: "row", role: "rowheader" } : { role: "cell", "data-title": c.title || null }) }));
		if (this.selectable)
			cells.unshift(h("td", { class: "mark", role: "cell" }, h("label", { class: "mark-box" },
				h("input", { type: "checkbox", "aria-label": `select ${key}`, onclick: (e) => this.#mark(key, e.target.checked, e.shiftKey) }))));
		return h("tr", { "data-key": key, role: "row" }, cells);
	}

	// ---- selection ----

	/** With the shift key, all rows between this one and the previous one. */
	#mark(key, on, range) {
		const order = [...this.body.children].map((line) => line.dataset.key);
		const [a, b] = [order.indexOf(range && this.last ? this.last : key), order.indexOf(key)];
		for (const k of order.slice(Math.min(a, b), Math.max(a, b) + 1))
			this.selected[on ? "add" : "delete"](k);
		this.last = key;
		this.#showMarks();
	}

	#markAll() {
		const on = this.selected.size < this.rows.length;
		this.selected = new Set(on ? this.rows.map(this.key) : []);
		this.#showMarks();
	}

	unmark() {
		this.selected.clear();
		this.#showMarks();
	}

	#showMarks() {
		if (!this.selectable)
			return;
		for (const [key, line] of this.lines) {
			const on = this.selected.has(key);
			line.querySelector(".mark-box input").checked = on;
			line.classList.toggle("marked", on);
		}
		this.all.checked = this.rows.length > 0 && this.selected.size === this.rows.length;
		this.all.indeterminate = this.selected.size > 0 && !this.all.checked;
		this.on_select?.(this.selected);
	}
}

/** Marks an element that has more to its right than it shows, and lets the keyboard scroll it. */
function signOverflow(element) {
	const look = () => {
		const wider = element.scrollWidth > element.clientWidth + 1;
		setAttribute(element, "tabindex", wider ? "0" : null);
		element.classList.toggle("wider", wider);
		element.classList.toggle("more-right", wider && element.scrollLeft + element.clientWidth < element.scrollWidth - 1);
	};
	const sizes = new ResizeObserver(look);
	sizes.observe(element);
	sizes.observe(element.firstElementChild);
	element.addEventListener("scroll", look);
}

/** A cell of plain text. */
export function textCell(of) {
	return (td, row) => setText(td, of(row));
}
