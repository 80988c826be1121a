// Every published program imports this file before it loads the rest (tools/build.ts). So an old Node says what to do, instead
// of failing on syntax that it does not know. For the same reason this file imports nothing, and its syntax is old.

/** The oldest Node that the programs run on, as `engines` of package.json says. */
const OLDEST = [24, 2] as const;

/** What is wrong with this version (`process.versions.node`), and what to do; undefined if the version is good. */
export function nodeFault(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return undefined;
  const needed = OLDEST.join('.');
  const advice = `install Node ${OLDEST[0]} (https://nodejs.org, or "nvm install ${OLDEST[0]}"), and start the command again`;
  return `pushpacer needs Node ${needed} or later, and this is Node ${version}; ${advice}`;
}

const fault = nodeFault(process.versions.node);
if (fault !== undefined) {
  process.stderr.write(`error: ${fault}\n`);
  process.exit(1);
}
