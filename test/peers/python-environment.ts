import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run, tail } from './commands.ts';
import { installOnce } from './install-once.ts';
import { MissingServer } from './peer-server.ts';

/** Which Pythons the pinned versions run on. */
interface Bounds {
  readonly from: number;
  readonly to: number;
}

// `ensurepip` is what Debian keeps in a package of its own.
const PROBE = 'import sys, venv, ensurepip; print(sys.version_info[0] * 100 + sys.version_info[1])';

const shown = (version: number): string => `${Math.floor(version / 100)}.${version % 100}`;

async function findPython(
  { from, to }: Bounds,
  signal: AbortSignal,
): Promise<{ file: string; version: number } | undefined> {
  const newestFirst = Array.from({ length: to - from + 1 }, (_, index) => `python${shown(to - index)}`);
  for (const file of ['python3', ...newestFirst]) {
    const { code, output } = await run(file, ['-c', PROBE], signal);
    const version = Number(output);
    if (code === 0 && version >= from && version <= to) return { file, version };
  }
  return undefined;
}

/** Makes a virtual environment with the packages that a requirements file pins, once, and gives its folder. */
export async function pythonEnvironment(
  cache: string,
  server: string,
  requirements: string,
  bounds: Bounds,
  signal: AbortSignal,
): Promise<string> {
  const python = await findPython(bounds, signal);
  if (!python) {
    const wanted = `Python ${shown(bounds.from)} to ${shown(bounds.to)} with its venv module`;
    throw new MissingServer(
      server,
      `Install ${wanted} (Debian: apt-get install python3 python3-venv) and have it on the PATH.`,
    );
  }
  const pins = await readFile(requirements, 'utf8');
  return installOnce(cache, server, `${python.version} ${pins}`, async (folder) => {
    const step = async (file: string, args: readonly string[], remedy: string): Promise<void> => {
      const ran = await run(file, args, signal);
      if (ran.code !== 0) throw new MissingServer(server, `${remedy} ${tail(ran)}`);
    };
    await step(python.file, ['-m', 'venv', folder], 'python3 -m venv failed (Debian: apt-get install python3-venv).');
    const quiet = ['--quiet', '--disable-pip-version-check', '--no-compile'];
    await step(
      join(folder, 'bin', 'python'),
      ['-m', 'pip', 'install', ...quiet, '--requirement', requirements],
      `pip could not install ${requirements}: it needs a package index that it can reach.`,
    );
  });
}
