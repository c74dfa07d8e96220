// Asks the platform's database to let it in without a password.
import { connect } from "node:net";

export async function main(host: string, port: number, user: string, database: string) {
  const answer = await new Promise<Buffer | string>((resolve) => {
    const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
    socket.setTimeout(5000, () => resolve("timed out"));
    socket.on("error", (error) => resolve(String(error.message)));
    socket.on("close", () => resolve("closed"));
    socket.on("data", (data) => (resolve(Buffer.from(data)), socket.destroy()));
    socket.on("connect", () => {
      const parameters = Buffer.from(`user\0${user}\0database\0${database}\0\0`);
      const head = Buffer.alloc(8);
      head.writeUInt32BE(parameters.length + 8, 0);
      head.writeUInt32BE(196608, 4);
      socket.write(Buffer.concat([head, parameters]));
    });
  });
  if (typeof answer === "string") return `contained: not reached (${answer})`;
  const isOpen = answer.length >= 9 && answer[0] === 0x52 && answer.readUInt32BE(5) === 0;
  return isOpen ? `exposed: ${user} needs no password` : "contained: it asks for a password, or refuses";
}
