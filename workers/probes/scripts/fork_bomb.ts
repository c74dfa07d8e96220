// limits: processes=64
// Starts processes without end.
import { spawn } from "node:child_process";

const MOST = 200; // more than it may

export async function main() {
  for (let count = 1; count < MOST; count++) {
    try {
      const failure = await new Promise((resolve) => {
        const child = spawn("sleep", ["600"], { stdio: "ignore", detached: true });
        child.on("error", resolve);
        child.on("spawn", () => resolve(null));
      });
      if (failure) return `contained: refused after ${count} processes`;
    } catch {
      return `contained: refused after ${count} processes`;
    }
  }
  return `exposed: ${MOST} processes`;
}
