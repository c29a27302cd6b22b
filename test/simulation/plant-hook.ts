import { readFileSync } from 'node:fs';
import { registerHooks, stripTypeScriptTypes } from 'node:module';
import type { runSchedule } from './schedule.ts';
import { PLANTED, type PlantedFault } from './planted.ts';

const PACKAGES = new URL('../../packages/', import.meta.url);
const HERE = new URL('./', import.meta.url);
const QUERY = '?planted=';

interface Schedules {
  readonly runSchedule: typeof runSchedule;
}

/** How often the source that a fault rewrites is there: once, or the table has gone stale. */
export function occurrences({ file, from }: PlantedFault): number {
  return readFileSync(new URL(file, PACKAGES), 'utf8').split(from).length - 1;
}

/** A second copy of core, worker and the simulation, with one fault in it. `number`: of the fault in the table. */
export function planted(number: number): Promise<Schedules> {
  install();
  return import(`./schedule.ts${QUERY}${number}`) as Promise<Schedules>;
}

let installed = false;

/** Whoever is loaded under a fault's query loads its own imports under it too. */
function install(): void {
  if (installed) return;
  installed = true;
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const query = context.parentURL?.split(QUERY)[1];
      const ours = found.url.startsWith(PACKAGES.href) || found.url.startsWith(HERE.href);
      return query !== undefined && ours && !found.url.includes(QUERY)
        ? { ...found, url: `${found.url}${QUERY}${query}` }
        : found;
    },
    load(url, context, next) {
      const [plain = url, query] = url.split(QUERY);
      const fault = query === undefined ? undefined : PLANTED[Number(query)];
      if (!fault || !plain.endsWith('.ts')) return next(url, context);
      const isFaulty = plain === new URL(fault.file, PACKAGES).href;
      return { format: 'module', source: isFaulty ? withFault(fault) : stripped(plain), shortCircuit: true };
    },
  });
}

const strippedSources = new Map<string, string>();

/** The source without its types, which takes longer than all the rest of loading it: once for all faults. */
function stripped(url: string): string {
  const known = strippedSources.get(url);
  if (known !== undefined) return known;
  const source = stripTypeScriptTypes(readFileSync(new URL(url), 'utf8'));
  strippedSources.set(url, source);
  return source;
}

function withFault({ file, from, to }: PlantedFault): string {
  const source = readFileSync(new URL(file, PACKAGES), 'utf8');
  return stripTypeScriptTypes(source.replace(from, () => to));
}
