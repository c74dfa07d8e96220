// Writes into what jobs have in common: the folders of Bun, the cache of dependencies. It changes nothing that is there.
import { chmodSync, closeSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Where Bun itself lies below /tmp, the way to it leads through the job's own /tmp, which it may change. */
function isOwn(folder: string) {
  try {
    return statSync(folder).dev === statSync("/tmp").dev && statSync("/tmp").dev !== statSync("/usr").dev;
  } catch {
    return false;
  }
}

export function main(shared: string[] = []) {
  const found: string[] = [];
  for (const folder of [...shared, dirname(process.execPath), "/node_modules", "/usr/lib/node_modules"]) {
    if (isOwn(folder)) continue;
    for (const name of ["node_modules", "bunfig.toml", `planted-${process.pid}.json`]) {
      try {
        writeFileSync(`${folder}/${name}`, "", { flag: "wx" });
        rmSync(`${folder}/${name}`);
        found.push(`planted ${folder}/${name}`);
      } catch {}
    }
    try {
      chmodSync(folder, statSync(folder).mode & 0o7777); // as it is: whether it may
      found.push(`changed ${folder}`);
    } catch {}
  }
  try {
    closeSync(openSync(process.execPath, "r+"));
    found.push("opened Bun for writing");
  } catch {}
  return found.length ? `exposed: ${found.slice(0, 5)}` : "contained";
}
