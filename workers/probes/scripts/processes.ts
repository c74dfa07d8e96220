// Looks for processes that are not its own, and for what the first process of its view lets it read.
import { readFileSync, readdirSync } from "node:fs";

function parent(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

export function main() {
  let top = process.pid;
  while (parent(top) > 1) top = parent(top);
  const found: string[] = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number)) {
    let above = pid;
    try {
      while (![0, 1, top].includes(above)) above = parent(above);
    } catch {
      continue; // it ended meanwhile
    }
    if (above !== top && pid !== 1) found.push(`process ${pid}`);
  }
  for (const name of ["environ", "maps", "fd", "root/etc", "cwd/"]) {
    try {
      if (["environ", "maps"].includes(name)) readFileSync(`/proc/1/${name}`);
      else readdirSync(`/proc/1/${name}`);
      found.push(`/proc/1/${name}`);
    } catch {}
  }
  return found.length ? `exposed: ${found.slice(0, 5)}` : "contained";
}
