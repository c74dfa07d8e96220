// limits: disk=32MB memory=1GB
// Fills the disk.
import { closeSync, openSync, writeSync } from "node:fs";

export function main() {
  const piece = new Uint8Array(1 << 20).fill(1);
  const file = openSync("bomb", "w");
  let written = 0;
  try {
    while (written < 8192 * piece.length) written += writeSync(file, piece);
  } catch (error) {
    return `contained: ${error.code} after ${written >> 20} MB`;
  } finally {
    closeSync(file);
  }
  return "exposed: 8192 MB";
}
