// The first file that a program loads, and that the library loads. An old Node must be able to read it, so it imports nothing, and
// its syntax is old.

/** The oldest Node that all of this runs on, as `engines` of package.json says. */
const OLDEST = [24, 2] as const;

/** As README.md and docs/getting-started.md say it. */
const ADVICE =
  'run "npm install --save-dev node@24" in the folder of your app; "npx" and "npm run" take that one there, ' +
  'as in "npx node app.js"';

/** What is wrong with this version (`process.versions.node`), and what to do; undefined if the version is good. */
export function nodeFault(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return undefined;
  return `pushpacer needs Node ${OLDEST.join('.')} or later, and this is Node ${version}: ${ADVICE}`;
}
