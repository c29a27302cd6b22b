import { setTimeout as pause } from 'node:timers/promises';
import { PermanentError, RetryableError } from '@leasehold/core';
import { defineTask, type AnyTask, type InputSchema, type TaskContext } from '@leasehold/worker';
import { Seeded } from '../simulation/seeded.ts';
import type { Desk } from './desk.ts';
import type { Job, TaskKind } from './task-plan.ts';
import { TASK_KINDS } from './task-plan.ts';

/** No fault plan makes an ordinary task fail this often; one that does has been failed by the library. */
const ATTEMPTS = 60;
const HOPELESS_ATTEMPTS = 3;

/** The task types of a run, as a worker registers them. */
export function chaosTasks(options: {
  readonly desk: Desk;
  readonly leaseMs: number;
  readonly seed: number;
}): readonly AnyTask[] {
  const { desk, leaseMs, seed } = options;
  return (Object.keys(TASK_KINDS) as TaskKind[]).map((kind) =>
    defineTask<Job>({
      type: kind,
      lease: leaseMs,
      limits: { attempts: kind === 'hopeless' ? HOPELESS_ATTEMPTS : ATTEMPTS },
      backoff: { first: '200ms', max: '2s' },
      ...(kind === 'misfit' && { input: FITS_NOBODY }),
      run: (job, ctx) => perform(kind, job, ctx, desk, seed),
    }),
  );
}

async function perform(kind: TaskKind, job: Job, ctx: TaskContext, desk: Desk, seed: number): Promise<unknown> {
  if (job.parts !== undefined) await inParts(job, job.parts, ctx);
  else await think(job, ctx);
  if (kind === 'hopeless') throw new RetryableError('it never works');
  if (job.failShare !== undefined && new Seeded(seed ^ hash(`${job.order} ${ctx.attempt}`)).chance(job.failShare))
    throw new RetryableError('it did not work this time', { delayMs: 300 });
  if (job.breakAt === 'start') throw new PermanentError('it cannot be done');
  const ids: string[] = [];
  for (const effect of job.effects) {
    const made = await ctx.effect(effect, desk.order(effect, job, ctx));
    ids.push(made.id);
  }
  if (job.breakAt === 'end') throw new PermanentError('it turned out wrong');
  const next = (job.children ?? []).map(({ type, job: child }) => ctx.next(type, child));
  return { ids, next };
}

async function think(job: Job, ctx: TaskContext): Promise<void> {
  // A deaf one waits on whatever happens to its lease.
  if (job.deaf) await pause(job.thinkMs);
  else await ctx.call('think', { provider: 'desk' }, ({ signal }) => pause(job.thinkMs, undefined, { signal }));
}

async function inParts(job: Job, parts: number, ctx: TaskContext): Promise<void> {
  const found = (ctx.checkpointed as { readonly part: number } | undefined)?.part ?? 0;
  for (let part = found; part < parts;) {
    ctx.stage('external_call', `part ${part + 1} of ${parts}`);
    await think(job, ctx);
    part++;
    await ctx.checkpoint({ part });
    if (part === job.handOffAt) await ctx.handOff(`after part ${part} of ${parts}`);
  }
}

const FITS_NOBODY: InputSchema<Job> = {
  '~standard': {
    version: 1,
    vendor: 'chaos',
    validate: () => ({ issues: [{ message: 'it fits nobody', path: ['order'] }] }),
  },
};

/** A number from a text, the same everywhere. */
export function hash(text: string): number {
  let mixed = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return mixed;
}
