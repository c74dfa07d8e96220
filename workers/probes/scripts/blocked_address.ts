// Talks to an address that jobs must not reach.
import { connect } from "node:net";

export async function main(address: string, port: number) {
  const found: string[] = [];
  for (const form of address.includes(":") ? [address] : [address, `::ffff:${address}`]) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, form);
      socket.setTimeout(3000, () => (socket.destroy(), resolve(false)));
      socket.on("error", () => resolve(false));
      socket.on("connect", () => (socket.destroy(), resolve(true)));
    });
    if (isOpen) found.push(`TCP to ${form}`);
  }
  try {
    await fetch(`http://${address}:${port}/`, { signal: AbortSignal.timeout(3000) });
    found.push("HTTP");
  } catch {}
  return found.length ? `exposed: ${found}` : "contained";
}
