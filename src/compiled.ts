/** Scripts for threads and child processes, which run compiled code only. */

/**
 * The compiled script at `path`, relative to the module of `importer` (its `import.meta.url`). For a source module, as in
 * tests, that is the last build's.
 */
export function compiledScript(path: string, importer: string): URL {
  if (!importer.endsWith('.ts')) return new URL(path, importer);
  const directory = new URL('.', importer).href;
  const root = new URL('.', import.meta.url).href;
  return new URL(path, new URL(`../dist/${directory.slice(root.length)}`, root));
}
