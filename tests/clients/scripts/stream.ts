import * as wmill from "windmill-client";

export async function main() {
  async function* parts() {
    yield* ["one, ", "two\n", "three"];
  }
  await wmill.streamResult(parts());
  return "done";
}
