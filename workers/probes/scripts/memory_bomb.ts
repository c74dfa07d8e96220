// limits: memory=512MB
// Takes memory without end.
export function main() {
  const taken: Uint8Array[] = [];
  for (let count = 0; count < 200; count++) taken.push(new Uint8Array(32 << 20).fill(1));
  return `exposed: ${taken.length * 32} MB`;
}
