import * as wmill from "windmill-client";

export async function main() {
  await wmill.setFlowUserState("cursor", { at: 7 }, true);
}
