import * as wmill from "windmill-client";

export async function main(path: string, hash: string) {
  const workspace = process.env.WM_WORKSPACE!;
  const byPath = await wmill.runScriptByPath(path, { x: 1, y: 2 });
  const byHash = await wmill.runScriptByHash(hash, { x: 3, y: 4 });
  const id = await wmill.runScriptByPathAsync(path, { x: 5, y: 6 });
  const later = await wmill.waitJob(id);
  const job = await wmill.JobService.getJob({ workspace, id });
  return {
    results: [byPath, byHash, later, await wmill.JobService.getCompletedJobResult({ workspace, id })],
    status: job.type === "CompletedJob" ? "COMPLETED" : "OTHER",
    child: id,
    root: await wmill.getRootJobId(id),
  };
}
