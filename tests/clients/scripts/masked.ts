import * as wmill from "windmill-client";

export async function main(password: string, path: string) {
  console.log("given", password);
  await wmill.setResource({ password }, path, "any");
  console.log("stored", (await wmill.getResource(path)).password);
  return password.length;
}
