// What every script of the site shares: data from json_script, icons, copying, downloading, posting.

/** The value of `{{ value|json_script:"id" }}`; undefined when the page has none. */
export function json(id) {
  const holder = id && document.getElementById(id);
  return holder ? JSON.parse(holder.textContent) : undefined;
}

const plainSprite = new URL("../vendor/icons.svg", import.meta.url).href;
/** Address of an icon for `<use href>`: the document knows the sprite's hashed name. */
export const iconHref = (name) => `${document.getElementById("toasts")?.dataset.sprite || plainSprite}#${name}`;

/** An icon element, for code that builds DOM by hand. */
export function icon(name, className = "i") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", iconHref(name));
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** Says `text` in the corner, for 5 s. `level` "error" stays 10 s and interrupts a screen reader; `href` makes it a link. */
export function toast(text, { level = "info", href } = {}) {
  const box = document.getElementById("toasts");
  if (!box) return;
  const item = Object.assign(document.createElement("div"), { className: "toast" });
  item.dataset.level = level;
  if (level === "error") item.setAttribute("role", "alert");
  const body = document.createElement(href ? "a" : "span");
  if (href) body.href = href;
  body.textContent = text;
  const close = Object.assign(document.createElement("button"), { type: "button", ariaLabel: "Dismiss" });
  close.append(icon("x"));
  close.addEventListener("click", () => item.remove());
  item.append(body, close);
  box.append(item);
  setTimeout(() => item.remove(), level === "error" ? 10000 : 5000);
}

/** Copies text; works on plain http too, where the clipboard API is missing. */
export async function copy(text, said = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text, className: "vh" });
    // Inside an open dialog everything else is inert, so the field must live in that dialog.
    (document.querySelector("dialog[open]") || document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) return toast("The browser did not allow copying", { level: "error" });
  }
  toast(said);
}

/** Saves `data` (string, Blob or bytes) as a file. */
export function download(data, name, type = "text/plain;charset=utf-8") {
  const blob = data instanceof Blob ? data : new Blob([data], { type });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The header that Django wants on every unsafe request. */
export const csrf = () => document.querySelector('meta[name="csrf-token"]')?.content || "";

/** fetch with the CSRF header; a failed answer rejects with the server's sentence. */
export async function send(url, { method = "POST", data } = {}) {
  const answer = await fetch(url, {
    method,
    headers: { "X-CSRFToken": csrf(), ...(data === undefined ? {} : { "Content-Type": "application/json" }) },
    body: data === undefined ? undefined : JSON.stringify(data),
  });
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 500) || `The server answered ${answer.status}`);
  return answer;
}
