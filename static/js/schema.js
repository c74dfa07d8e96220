// JSON Schema as Windmill writes it: what a form needs to know. The server validates again with the whole standard.

export const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
export const isReference = (v) => typeof v === "string" && /^\$(res|var|encrypted):/.test(v);

/** The first type that is not null. */
export const typeOf = (s) => (Array.isArray(s.type) ? s.type.find((t) => t !== "null") : s.type);

/** Property names in the order of the signature. */
export function names(schema) {
  const all = Object.keys(schema.properties || {});
  const order = (schema.order || []).filter((n) => all.includes(n));
  return [...order, ...all.filter((n) => !order.includes(n))];
}

/** What draws a field: one word. */
export function control(s) {
  const type = typeOf(s);
  if (s.format?.startsWith("resource-") && s.format !== "resource-s3_object") return "resource";
  if (type === "resource") return "resource";
  if (Array.isArray(s.enum)) return "choice";
  if (type === "boolean") return "switch";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") {
    if (s.contentEncoding === "base64") return "file";
    if (s.password || s.format === "password") return "password";
    if (["date", "date-time", "time", "email"].includes(s.format)) return s.format;
    if (s.format === "uri" || s.format === "url") return "uri";
    if (["sql", "yaml", "json", "textarea", "multiline"].includes(s.format) || s.minRows || s.multiline) return "textarea";
    return "text";
  }
  if (type === "object" && Array.isArray(s.oneOf) && s.oneOf.length && s.oneOf.every((o) => isObject(o.properties))) return "variant";
  if (type === "object" && isObject(s.properties) && Object.keys(s.properties).length) return "group";
  if (type === "array" && isObject(s.items)) {
    if (Array.isArray(s.items.enum)) return "choices";
    if (typeOf(s.items) === "string" && control(s.items) === "text") return "chips";
    if (typeOf(s.items) && control(s.items) !== "json") return "list";
  }
  return "json";
}

/** The resource type that a picker offers. */
export const resourceType = (s) => (s.format?.startsWith("resource-") ? s.format.slice(9) : s.resourceType || "");

/** The property whose fixed value tells the variants of a oneOf apart. */
export function tagOf(s) {
  const fixed = (o, k) => o.properties?.[k]?.const !== undefined || o.properties?.[k]?.enum?.length === 1;
  return Object.keys(s.oneOf[0].properties).find((k) => s.oneOf.every((o) => fixed(o, k))) || "label";
}
export const tagValue = (o, tag) => o.properties?.[tag]?.const ?? o.properties?.[tag]?.enum?.[0] ?? o.title;
/** The variant that `value` is, else the first. */
export function variantOf(s, value) {
  const tag = tagOf(s);
  return s.oneOf.find((o) => isObject(value) && tagValue(o, tag) === value[tag]) || s.oneOf[0];
}

/** The value a field starts with; undefined when the schema names none. */
export function initial(s, required) {
  if (s.default !== undefined && s.default !== null) return structuredClone(s.default);
  const kind = control(s);
  if (kind === "group") {
    const made = Object.fromEntries(names(s).map((k) => [k, initial(s.properties[k], (s.required || []).includes(k))]).filter(([, v]) => v !== undefined));
    return required || Object.keys(made).length ? made : undefined;
  }
  if (kind === "variant" && required) {
    const first = s.oneOf[0], tag = tagOf(s);
    return { [tag]: tagValue(first, tag), ...Object.fromEntries(names(first).filter((k) => k !== tag).map((k) => [k, initial(first.properties[k], (first.required || []).includes(k))]).filter(([, v]) => v !== undefined)) };
  }
  if (!required) return undefined;
  if (kind === "switch") return false;
  if (["chips", "list", "choices"].includes(kind)) return [];
  return undefined;
}

/** `value` in the shape of `s` when that loses nothing ("5" for an integer is 5), else undefined. */
export function adapt(s, value) {
  if (value === undefined || isReference(value)) return value;
  const type = typeOf(s);
  if (Array.isArray(s.enum)) return s.enum.includes(value) ? value : undefined;
  if (type === "string") return typeof value === "string" ? value : ["number", "boolean"].includes(typeof value) ? String(value) : undefined;
  if (type === "number" || type === "integer") {
    if (typeof value === "number") return value;
    return typeof value === "string" && value.trim() !== "" && !isNaN(value) ? Number(value) : undefined;
  }
  if (type === "boolean") return typeof value === "boolean" ? value : value === "true" ? true : value === "false" ? false : undefined;
  if (type === "array") return Array.isArray(value) ? value : undefined;
  if (type === "object") return isObject(value) || control(s) === "json" ? value : undefined;
  return value;
}

const DATE = /^\d{4}-\d{2}-\d{2}$/, MAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;
/** One sentence about what is wrong with a value that is there, or "". */
function wrong(s, v) {
  const type = typeOf(s);
  if (v === null && (Array.isArray(s.type) ? s.type.includes("null") : type === undefined)) return "";
  if (isReference(v)) return "";
  if (Array.isArray(s.enum) && !s.enum.includes(v)) return `Choose one of: ${s.enum.slice(0, 8).join(", ")}${s.enum.length > 8 ? ", …" : ""}`;
  if (type === "integer" || type === "number") {
    if (typeof v !== "number") return "Must be a number";
    if (type === "integer" && !Number.isInteger(v)) return "Must be a whole number";
    if (s.minimum !== undefined && v < s.minimum) return `Must be ${s.minimum} or more`;
    if (s.maximum !== undefined && v > s.maximum) return `Must be ${s.maximum} or less`;
    if (s.exclusiveMinimum !== undefined && v <= s.exclusiveMinimum) return `Must be more than ${s.exclusiveMinimum}`;
    if (s.exclusiveMaximum !== undefined && v >= s.exclusiveMaximum) return `Must be less than ${s.exclusiveMaximum}`;
    if (s.multipleOf && Math.abs(v / s.multipleOf - Math.round(v / s.multipleOf)) > 1e-9) return `Must be a multiple of ${s.multipleOf}`;
  }
  if (type === "string") {
    if (typeof v !== "string") return "Must be text";
    const length = [...v].length;
    if (s.minLength !== undefined && length < s.minLength) return `Needs ${s.minLength} characters or more`;
    if (s.maxLength !== undefined && length > s.maxLength) return `Must be ${s.maxLength} characters or fewer`;
    if (s.pattern && !matches(s.pattern, v)) return s.patternError || s.description || `Must match ${s.pattern}`;
    if (s.format === "email" && !MAIL.test(v)) return "Must be an e-mail address";
    if (s.format === "date" && !(DATE.test(v) && !isNaN(Date.parse(v)))) return "Must be a date such as 2026-01-31";
    if (s.format === "date-time" && isNaN(Date.parse(v))) return "Must be a date and time";
    if ((s.format === "uri" || s.format === "url") && !URL.canParse(v)) return "Must be an address such as https://example.com";
  }
  if (type === "boolean" && typeof v !== "boolean") return "Must be true or false";
  if (type === "array") {
    if (!Array.isArray(v)) return "Must be a list";
    if (s.minItems !== undefined && v.length < s.minItems) return `Needs ${s.minItems} or more`;
    if (s.maxItems !== undefined && v.length > s.maxItems) return `Must hold ${s.maxItems} or fewer`;
    if (s.uniqueItems && new Set(v.map((x) => JSON.stringify(x))).size < v.length) return "Must not repeat an item";
  }
  if (type === "object" && !isObject(v) && control(s) !== "json") return "Must be an object";
  return "";
}
function matches(pattern, text) {
  try { return new RegExp(pattern, "u").test(text); } catch { return true; } // a pattern of another dialect: the server decides
}

/** Every fault of `value` as {path: sentence}; a path is "a.b.0.c". */
export function check(schema, value, base = []) {
  const faults = {};
  for (const key of names(schema)) inspect(schema.properties[key], value?.[key], [...base, key], (schema.required || []).includes(key), faults);
  return faults;
}
function inspect(s, v, path, required, faults) {
  const at = path.join("."), kind = control(s);
  if (v === undefined || (v === "" && required && kind !== "text" && kind !== "textarea" && kind !== "password")) {
    if (required) faults[at] = "This is required";
    return;
  }
  const fault = wrong(s, v);
  if (fault) { faults[at] = fault; return; }
  if (isReference(v)) return;
  if (kind === "group" && isObject(v)) Object.assign(faults, check(s, v, path));
  if (kind === "variant" && isObject(v)) {
    const one = variantOf(s, v), tag = tagOf(s);
    for (const [k, m] of Object.entries(check(one, v, path))) if (k !== [...path, tag].join(".")) faults[k] = m;
  }
  if (Array.isArray(v) && isObject(s.items)) v.forEach((x, i) => inspect(s.items, x === null ? undefined : x, [...path, i], true, faults));
}
