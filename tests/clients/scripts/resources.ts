import * as wmill from "windmill-client";

export async function main(path: string, secret: string, absent: string) {
  const workspace = process.env.WM_WORKSPACE!;
  await wmill.setVariable(secret, "swordfish", true);
  await wmill.setResource({ host: "a", password: `$var:${secret}` }, path, "ftp");
  const first = await wmill.getResource(path);
  await wmill.setResource({ host: "b", ports: [1, 2] }, path);
  const rows = await wmill.ResourceService.listResource({ workspace, resourceType: "ftp" });
  return {
    first,
    second: await wmill.getResource(`$res:${path}`),
    absent: (await wmill.getResource(absent, true)) ?? null,
    of_type: rows.map((row) => row.path),
  };
}
