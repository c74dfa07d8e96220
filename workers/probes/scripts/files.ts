// Reads what is hidden, lists the homes and temporary folders of others, and writes into the system.
import { closeSync, mkdirSync, openSync, readdirSync, rmdirSync } from "node:fs";

// Of some, what leads to the tools of jobs is in sight: no file of theirs is.
const CLOSED = ["/root", "/home", "/run", "/srv", "/var/lib", "/mnt", "/.old", "/.shares"];

export function main(hidden: string[] = []) {
  const found: string[] = [];
  const attempt = (what: string, act: () => unknown) => {
    try {
      if (act()) found.push(what);
    } catch {}
  };
  for (const path of hidden) attempt(`listed ${path}`, () => readdirSync(path).length);
  for (const path of CLOSED) {
    attempt(`saw a file of ${path}`, () => readdirSync(path, { withFileTypes: true }).some((one) => one.isFile()));
  }
  for (const path of ["/etc/shadow", "/proc/kcore", "/dev/kmsg", "/dev/sda", "/dev/vda"]) {
    attempt(`read ${path}`, () => (closeSync(openSync(path, "r")), true));
  }
  for (const path of ["", "/usr", "/etc", "/opt", "/root", "/home", "/var", "/dev", "/sys", ...hidden]) {
    const name = `${path}/probe-${process.pid}`;
    attempt(`wrote into ${path}/`, () => (mkdirSync(name), rmdirSync(name), true));
  }
  return found.length ? `exposed: ${found.slice(0, 5)}` : "contained";
}
