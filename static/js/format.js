// Durations, sizes and moments in words: the same wording as windmill_site/templatetags/ui.py.

/** 8 -> "8 ms", 1234 -> "1.2 s", 184000 -> "3 min 04 s". */
export function duration(ms) {
  if (ms == null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const s = Math.floor(ms / 1000), two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** 1500 -> "1.5 KB" (powers of 1024). */
export function bytes(n) {
  if (n == null) return "";
  let size = n, unit = 0;
  while (size >= 1024 && unit < 4) { size /= 1024; unit++; }
  return `${size.toFixed(unit === 0 || (size >= 100 && unit < 4) ? 0 : 1)} ${["B", "KB", "MB", "GB", "TB"][unit]}`;
}

/** A moment relative to now: "4 min ago", "in 2 h". */
export function ago(moment, now = Date.now()) {
  const s = (new Date(moment).getTime() - now) / 1000, far = Math.abs(s);
  if (far < 5) return "now";
  const [size, unit] = far < 60 ? [1, "s"] : far < 3600 ? [60, "min"] : far < 86400 ? [3600, "h"] : [86400, "d"];
  const text = `${Math.floor(far / size)} ${unit}`;
  return s < 0 ? `${text} ago` : `in ${text}`;
}
