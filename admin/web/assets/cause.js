// The cause of a failure as text. It must equal the text of `quredis dlq stats` (admin/dead_letters/cause.c) byte by byte, so that a
// retry or deletion by cause affects exactly the dead letters that were counted.

const LINE_MOST = 126;
const HEX_LEAST = 8;            // shorter ones may be words
const DIGITS_KEPT = 3, GROUPS_KEPT = 3;
const NEWLINE = 10, HASH = 35, DASH = 45, DOT = 46, ZERO = 48, COLON = 58, X = 120, SPACE = 32;

const isDigit = (b) => b >= 48 && b <= 57;
const isLetter = (b) => (b >= 65 && b <= 90) || (b >= 97 && b <= 122);
const isHex = (b) => isDigit(b) || (b >= 65 && b <= 70) || (b >= 97 && b <= 102);
const isSpace = (b) => b === SPACE || (b >= 9 && b <= 13);

/** The length of the id in hex digits that begins at `at`; 0 if none does. */
function hexLength(s, at) {
	let n = at, digits = 0;
	if (s[at] === ZERO && s[at + 1] === X && at + 2 < s.length && isHex(s[at + 2])) {
		for (n = at + 2; n < s.length && isHex(s[n]);)
			n++;
		return n - at;
	}
	while (n < s.length && (isHex(s[n]) || (n > at && s[n] === DASH && n + 1 < s.length && isHex(s[n + 1])))) {
		digits += isDigit(s[n]) ? 1 : 0;
		n++;
	}
	return n - at >= HEX_LEAST && digits > 0 && (n === s.length || !isLetter(s[n])) ? n - at : 0;
}

/** The length of the number that begins at `at`, and whether it may be a code: cause.c says which do. */
function numberLength(s, at) {
	let n = at, groups = 0, longest = 0, colons = 0;
	while (n < s.length && isDigit(s[n])) {
		const begin = n;
		while (n < s.length && isDigit(s[n]))
			n++;
		groups++;
		longest = Math.max(longest, n - begin);
		if (n + 1 < s.length && (s[n] === DOT || s[n] === COLON || (s[n] === DASH && longest > DIGITS_KEPT)) && isDigit(s[n + 1]))
			colons += s[n++] === COLON ? 1 : 0;
	}
	return [n - at, longest <= DIGITS_KEPT && groups <= GROUPS_KEPT && colons < 2];
}

function normalised(s) {
	const out = [];
	for (let i = 0; i < s.length && s[i] !== NEWLINE && out.length < LINE_MOST;) {
		const in_word = i > 0 && (isDigit(s[i - 1]) || isLetter(s[i - 1]));
		let variable = in_word && !isDigit(s[i]) ? 0 : hexLength(s, i), stays = false;
		if (variable === 0)
			[variable, stays] = numberLength(s, i);
		if (variable === 0)
			out.push(isSpace(s[i]) ? SPACE : s[i]);
		else if (stays)
			out.push(...s.slice(i, Math.min(i + variable, i + LINE_MOST - out.length)));
		else if (out.at(-1) !== HASH)
			out.push(HASH);
		i += variable || 1;
	}
	const end = out.indexOf(0);
	return new TextDecoder().decode(Uint8Array.from(end === -1 ? out : out.slice(0, end)));
}

/** error: the bytes of error_message. */
export function causeOf(record, error) {
	const line = normalised(error), code = record.exit_code ?? "", signal = record.signal ?? "";
	return `${(record.error_class || "?").slice(0, 40)}${code === "" ? "" : ` exit ${code}`}${signal === "" ? "" : ` ${signal}`}${line === "" ? "" : `: ${line}`}`;
}
