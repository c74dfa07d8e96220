import * as wmill from "windmill-client";

export async function main() {
  const before = await wmill.getProgress();
  await wmill.setProgress(42);
  return { before, after: await wmill.getProgress() };
}
