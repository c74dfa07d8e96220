import * as wmill from "windmill-client";

export async function main() {
  const count = ((await wmill.getState()) ?? { count: 0 }).count + 1;
  await wmill.setState({ count });
  return await wmill.getState();
}
