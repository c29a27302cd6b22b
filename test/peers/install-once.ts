import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Fills a folder of the cache once: its name bears what decides its content, and a mark is set at the end, so that an installation that was
 * cut short is begun anew.
 */
export async function installOnce(
  cache: string,
  name: string,
  decides: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(cache, `${name}-${createHash('sha256').update(decides).digest('hex').slice(0, 12)}`);
  const mark = join(folder, '.complete');
  if (existsSync(mark)) return folder;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await fill(folder);
  await writeFile(mark, '');
  return folder;
}
