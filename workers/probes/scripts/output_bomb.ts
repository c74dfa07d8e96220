// limits: output=1MB
// Prints one line of 100 MB.
import { writeSync } from "node:fs";

export function main() {
  const piece = Buffer.alloc(1 << 20, "x");
  for (let count = 0; count < 100; count++) {
    for (let sent = 0; sent < piece.length; ) sent += writeSync(1, piece.subarray(sent));
  }
  return "contained"; // the rest of it is not kept; the job goes on
}
