import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

/**
 * Puts a script and the sources it imports into one JavaScript file in `directory`. Two hundred processes that each strip the types
 * of forty files would spend the test's time on that.
 */
export async function bundle(script: URL, directory: string): Promise<URL> {
  const conditions = ['@leasehold/source'];
  await build({
    configFile: false,
    logLevel: 'error',
    root: import.meta.dirname,
    resolve: { conditions },
    ssr: { noExternal: true, resolve: { conditions } },
    build: {
      ssr: fileURLToPath(script),
      outDir: directory,
      emptyOutDir: false,
      rolldownOptions: { output: { entryFileNames: 'bundle.mjs' } },
    },
  });
  return pathToFileURL(join(directory, 'bundle.mjs'));
}
