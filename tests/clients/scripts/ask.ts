import * as wmill from "windmill-client";

export async function main() {
  return await wmill.getResumeUrls("bob");
}
