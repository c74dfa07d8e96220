// Rebuilds static/vendor from the pinned npm packages beside this file.
//   cd deploy/vendor && npm ci && node build.mjs
// Writes the bundles, the icon sprite, the fonts, every licence text, and
// MANIFEST.json (package, version, licence, file -> sha256). CI only re-hashes.
import esbuild from "esbuild";
import fs from "node:fs";
import path from "node:path";
import crypto from "node:crypto";
import { gzipSync } from "node:zlib";

const here = path.dirname(new URL(import.meta.url).pathname);
const out = path.resolve(here, "../../static/vendor");
const nm = path.resolve(process.env.VENDOR_NODE_MODULES || path.join(here, "node_modules"));
fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });

const shared = { bundle: true, minify: true, format: "esm", target: ["es2022"], legalComments: "none",
  absWorkingDir: here, nodePaths: [nm], metafile: true, logLevel: "warning" };
const metas = [];

// What packages import for parts that we do not use: left out, with all that would come with it. Importer -> imports.
const UNUSED = {
  "cm6-graphql": ["graphql", "graphql-language-service", "@codemirror/lint"], // completions and checks by a schema
  "@codemirror/lang-php": ["@codemirror/lang-html"], // HTML around <?php
};
const leaveOut = { name: "leave-out", setup: (build) => build.onResolve({ filter: /^[\w@]/ }, ({ path: wanted, importer }) => {
  const by = Object.keys(UNUSED).find((p) => importer.includes(`/node_modules/${p}/`));
  return by && UNUSED[by].includes(wanted) ? { path: path.join(here, "entries/unused.js") } : null;
}) };

metas.push(await esbuild.build({ ...shared, entryPoints: { lit: "entries/lit.js", uplot: "entries/uplot.js" }, outdir: out }));
metas.push(await esbuild.build({ ...shared, entryPoints: { cm: "entries/cm.js" }, outdir: path.join(out, "cm"),
  splitting: true, chunkNames: "[name]-[hash]", plugins: [leaveOut] }));

for (const [from, to] of [
  ["htmx.org/dist/htmx.min.js", "htmx.min.js"],
  ["uplot/dist/uPlot.min.css", "uplot.css"],
  ["@fontsource-variable/inter/files/inter-latin-wght-normal.woff2", "fonts/inter-latin.woff2"],
  ["@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2", "fonts/inter-latin-ext.woff2"],
  ["@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2", "fonts/jetbrains-mono-latin.woff2"],
]) {
  fs.mkdirSync(path.dirname(path.join(out, to)), { recursive: true });
  let body = fs.readFileSync(path.join(nm, from));
  if (to.endsWith(".js")) body = Buffer.from(body.toString().replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "\n"));
  fs.writeFileSync(path.join(out, to), body);
}

// One sprite with only the icons listed in icons.txt
const names = fs.readFileSync(path.join(here, "icons.txt"), "utf8").split(/\s+/).filter(Boolean);
const symbols = names.map((n) => {
  const svg = fs.readFileSync(path.join(nm, "lucide-static/icons", `${n}.svg`), "utf8");
  return `<symbol id="${n}" viewBox="0 0 24 24">${svg.replace(/^[\s\S]*?<svg[^>]*>/, "").replace(/<\/svg>\s*$/, "").replace(/\s*\n\s*/g, "")}</symbol>`;
});
fs.writeFileSync(path.join(out, "icons.svg"), `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("\n")}</svg>\n`);

// Manifest + licences of every package that reached a bundle
const pkgs = new Set(["htmx.org", "uplot", "lucide-static", "@fontsource-variable/inter", "@fontsource-variable/jetbrains-mono"]);
for (const m of metas) for (const f of Object.keys(m.metafile.inputs)) {
  const hit = f.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/);
  if (hit) pkgs.add(hit[1]);
}
const packages = {};
fs.mkdirSync(path.join(out, "licences"), { recursive: true });
for (const p of [...pkgs].sort()) {
  const dir = path.join(nm, p);
  const meta = JSON.parse(fs.readFileSync(path.join(dir, "package.json")));
  packages[p] = { version: meta.version, licence: meta.license };
  const file = fs.readdirSync(dir).find((f) => /^(licen[sc]e|copying|ofl)/i.test(f));
  if (file) fs.copyFileSync(path.join(dir, file), path.join(out, "licences", p.replace("/", "__") + ".txt"));
  else packages[p].note = "no licence file in the package; see its package.json";
}
const files = {};
const walk = (d) => fs.readdirSync(d, { withFileTypes: true }).sort((a, b) => a.name < b.name ? -1 : 1).forEach((e) => {
  const p = path.join(d, e.name);
  if (e.isDirectory()) return walk(p);
  const body = fs.readFileSync(p);
  files[path.relative(out, p)] = { sha256: crypto.createHash("sha256").update(body).digest("hex"), bytes: body.length, gzip: gzipSync(body, { level: 9 }).length };
});
walk(out);
fs.writeFileSync(path.join(out, "MANIFEST.json"), JSON.stringify({ packages, files }, null, 1) + "\n");
console.log(Object.entries(files).filter(([f]) => !f.startsWith("licences")).map(([f, v]) => `${f} ${v.bytes} (${v.gzip} gz)`).join("\n"));
