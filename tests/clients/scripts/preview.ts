import * as wmill from "windmill-client";

export async function main() {
  const workspace = process.env.WM_WORKSPACE!;
  const content = "def main(x: int):\n    return x * 2\n";
  const requestBody = { content, language: "python3" as const, args: { x: 21 } };
  return await wmill.JobService.runScriptPreviewInline({ workspace, requestBody });
}
