import * as wmill from "windmill-client";

export async function main(plain: string, secret: string, absent: string) {
  const seen: unknown[] = [];
  await wmill.setVariable(plain, "one");
  seen.push(await wmill.getVariable(plain));
  await wmill.setVariable(plain, 'two "quoted" é\n');
  seen.push(await wmill.getVariable(`var://${plain}`));
  await wmill.setVariable(secret, "hush hush", true);
  seen.push(await wmill.getVariable(secret));
  try {
    await wmill.getVariable(absent);
  } catch (error) {
    seen.push(String(error).includes(absent));
  }
  return seen;
}
