import * as wmill from "windmill-client";

export async function main() {
  return {
    cursor: await wmill.getFlowUserState("cursor", true),
    absent: (await wmill.getFlowUserState("absent")) ?? null,
  };
}
