import * as wmill from "windmill-client";

export async function main(path: string) {
  const id = await wmill.runFlowAsync(path, { x: 20 });
  return await wmill.waitJob(id);
}
