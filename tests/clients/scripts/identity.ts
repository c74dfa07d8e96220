import * as wmill from "windmill-client";

export async function main() {
  const workspace = process.env.WM_WORKSPACE!;
  const me = await wmill.UserService.whoami({ workspace });
  return {
    email: me.email,
    workspace,
    by_name: await wmill.usernameToEmail(process.env.WM_USERNAME!),
  };
}
