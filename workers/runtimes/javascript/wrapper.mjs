// One call: its result or its error goes to a file, and the process ends. Behind calling.mjs.

async function run() {
  const module = await load();
  const text = await perform(module, job, (args) => write(".preprocessed.json", args));
  await write(".result.json", text);
}

async function write(name, text) {
  const path = `${folder}/${name}`;
  if (Bun) await Bun.write(path, text);
  else if (Deno) Deno.writeTextFileSync(path, text);
  else fs().writeFileSync(path, text);
}

/** Write the error, now: it may come when nothing that takes time will be waited for any more. */
function fail(error) {
  const path = `${folder}/.error.json`;
  if (Deno) Deno.writeTextFileSync(path, errorText(error));
  else fs().writeFileSync(path, errorText(error));
  exit(1);
}

function exit(code) {
  if (Deno) Deno.exit(code);
  process.exit(code);
}

function unanswered() {
  fail(neverReturned(job.main.name));
}

if (Deno) {
  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    fail(event.reason);
  });
  addEventListener("error", (event) => {
    event.preventDefault();
    fail(event.error);
  });
  addEventListener("beforeunload", unanswered);
} else {
  process.on("unhandledRejection", fail);
  process.on("uncaughtException", fail);
  process.on("beforeExit", unanswered);
}
run().then(() => exit(0), fail);
