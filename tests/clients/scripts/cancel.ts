import * as wmill from "windmill-client";

export async function main(path: string) {
  const workspace = process.env.WM_WORKSPACE!;
  const id = await wmill.runScriptByPathAsync(path);
  while (!(await wmill.JobService.getCompletedJobResultMaybe({ workspace, id, getStarted: true })).started) {
    await new Promise((wake) => setTimeout(wake, 100));
  }
  await wmill.cancelJob(id, "not needed");
  while (!(await wmill.JobService.getCompletedJobResultMaybe({ workspace, id })).completed) {
    await new Promise((wake) => setTimeout(wake, 100));
  }
  const job = await wmill.JobService.getJob({ workspace, id });
  return { canceled: job.canceled, reason: job.canceled_reason };
}
