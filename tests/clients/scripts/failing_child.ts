import * as wmill from "windmill-client";

export async function main(path: string) {
  return await wmill.runScriptByPath(path);
}
