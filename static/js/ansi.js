// Terminal colours to class names: no inline styles, so it works under the site's policy.
const SGR = /\x1b\[([\d;:]*)m/g;
const OTHER = /\x1b\[[\d;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78cM]|[\x00-\x08\x0b\x0c\x0e-\x1a\x7f]/g;

/** The text without any escape sequence. */
export const plain = (line) => line.replace(SGR, "").replace(OTHER, "");

// The 256-colour palette folded onto the sixteen that have readable tokens in both themes.
const CUBE = [30, 34, 36, 32, 33, 31, 35, 37];
function fold(codes, at) {
  if (codes[at + 1] === 5) {
    const n = codes[at + 2];
    if (n < 8) return 30 + n;
    if (n < 16) return 82 + n;
    if (n >= 232) return n < 244 ? 90 : 37;
    const r = Math.floor((n - 16) / 36), g = Math.floor(((n - 16) % 36) / 6), b = (n - 16) % 6;
    return nearest(r * 51, g * 51, b * 51);
  }
  return nearest(codes[at + 2], codes[at + 3], codes[at + 4]);
}
function nearest(r, g, b) {
  const top = Math.max(r, g, b);
  if (top < 60) return 30;
  const on = (c) => c > top * 0.66;
  const bits = (on(r) ? 4 : 0) + (on(g) ? 2 : 0) + (on(b) ? 1 : 0);
  return [CUBE[0], CUBE[1], CUBE[3], CUBE[2], CUBE[5], CUBE[6], CUBE[4], CUBE[7]][bits];
}
const isColour = (c) => (c >= 30 && c <= 37) || (c >= 90 && c <= 97);

/**
 * Splits a line into [text, classes] pairs. `start` is the set of codes still on at its beginning (a colour may span
 * lines); the codes on at its end come back as `end`.
 */
export function ansi(line, start = []) {
  const parts = [];
  let on = [...start], last = 0, match;
  const text = line.replace(OTHER, "");
  const push = (piece) => { if (piece) parts.push([piece, on.map((c) => `a-${c}`).join(" ")]); };
  SGR.lastIndex = 0;
  while ((match = SGR.exec(text))) {
    push(text.slice(last, match.index));
    last = SGR.lastIndex;
    const codes = (match[1] || "0").split(/[;:]/).map(Number);
    for (let i = 0; i < codes.length; i++) {
      const c = codes[i];
      if (c === 0) on = [];
      else if (c === 39) on = on.filter((x) => !isColour(x));
      else if (c >= 22 && c <= 24) on = on.filter((x) => (c === 22 ? x > 2 : x !== c - 20));
      else if (c === 38) { on = [...on.filter((x) => !isColour(x)), fold(codes, i)]; i += codes[i + 1] === 5 ? 2 : 4; }
      else if (c === 48) i += codes[i + 1] === 5 ? 2 : 4;
      else if (isColour(c)) on = [...on.filter((x) => !isColour(x)), c];
      else if (c >= 1 && c <= 4 && !on.includes(c)) on.push(c);
    }
  }
  push(text.slice(last));
  return { parts, end: on };
}
