// One call that comes over a pipe, to a process that was started before there was a job. In place of JOB's text, before
// wrapper.mjs, behind calling.mjs.

function nextJob() {
  const files = import.meta.require("node:fs");
  const CALLS = 3;
  const pieces = [];
  for (let piece; (piece = Buffer.allocUnsafe(65_536)); ) {
    const length = files.readSync(CALLS, piece);
    if (length === 0) break;
    pieces.push(piece.subarray(0, length));
  }
  if (pieces.length === 0) process.exit(0); // nobody wanted it
  for (const descriptor of [3, 4, 5]) files.closeSync(descriptor);
  const told = JSON.parse(Buffer.concat(pieces).toString());
  Object.assign(process.env, told.env);
  for (const [path, text] of Object.entries(told.files)) {
    if (path.includes("/")) files.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    files.writeFileSync(path, text);
  }
  return told.job;
}
