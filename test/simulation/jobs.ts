import { PermanentError, RetryableError, sleep } from '@leasehold/core';
import type { Clock, TaskRecord } from '@leasehold/core';
import { defineTask, guarded, type AnyTask, type CommitContext, type TaskContext } from '@leasehold/worker';
import type { Made } from '../../packages/worker/test/receiver.ts';
import type { Kind } from './plan.ts';

export const ATTEMPTS = 4;
export const LEASE_MS = 9_000;
/** The kinds that settle unless they use up their attempts. */
export const GOOD: readonly Kind[] = [
  'plain',
  'deaf',
  'effect',
  'effect by function',
  'two effects',
  'follow-up',
  'checkpoint',
  'hand-off',
  'retry',
];

/** What the handlers of one process need of it. */
export interface Bench {
  readonly clock: Clock;
  make(call: CommitContext): Promise<Made>;
  find(call: CommitContext): Promise<Made | undefined>;
  /** Whether the receiver has made something under this key. */
  exists(key: string): boolean;
  /** The record as it stands in the ledger. */
  record(taskId: string): TaskRecord | undefined;
  require(holds: boolean, what: string): void;
  /** Kills the process; another is started in its place. */
  die(): Promise<never>;
  /** A handler has begun with this context. */
  began(ctx: TaskContext): void;
}

interface Input {
  readonly kind: Kind;
  readonly workMs: number;
}

/** The task types of these kinds, made for one process. */
export function jobs(bench: Bench, kinds: readonly Kind[]): readonly AnyTask[] {
  const task = (type: string, run: (input: Input, ctx: TaskContext) => Promise<unknown>): AnyTask =>
    defineTask({
      type,
      lease: LEASE_MS,
      limits: { attempts: ATTEMPTS, tool: 20_000, stage: 60_000 },
      backoff: { first: 500, max: 4_000 },
      run: (input: Input, ctx) => {
        bench.began(ctx);
        return run(input, ctx);
      },
    });
  return [
    ...kinds.map((kind) => task(kind, (input, ctx) => HANDLERS[kind](bench, ctx, input))),
    ...(kinds.includes('follow-up') ? ['child'] : []).map((type) =>
      task(type, async (_input, ctx) => (await effect(bench, ctx, 'create', 'look')).id),
    ),
  ];
}

type Handler = (bench: Bench, ctx: TaskContext, input: Input) => Promise<unknown>;

const work = async (bench: Bench, ctx: TaskContext, ms: number): Promise<void> => {
  if (ms > 0) await ctx.call('work', { timeout: 30_000 }, ({ signal }) => sleep(bench.clock, ms, signal));
};

const HANDLERS: Readonly<Record<Kind, Handler>> = {
  async plain(bench, ctx, { workMs }) {
    await work(bench, ctx, workMs);
    return 'done';
  },
  async deaf(bench, ctx, { workMs }) {
    // Listens to no signal, as much code does.
    await sleep(bench.clock, workMs);
    return (await effect(bench, ctx, 'create', 'look')).id;
  },
  async effect(bench, ctx, { workMs }) {
    await work(bench, ctx, workMs);
    return (await effect(bench, ctx, 'create', 'look')).id;
  },
  async 'effect by function'(bench, ctx, { workMs }) {
    const made = await effect(bench, ctx, 'create', 'function');
    await work(bench, ctx, workMs);
    return made.id;
  },
  async 'two effects'(bench, ctx, { workMs }) {
    const first = await effect(bench, ctx, 'first', 'look');
    await work(bench, ctx, workMs);
    const second = await effect(bench, ctx, 'second', 'function');
    return [first.id, second.id];
  },
  async 'follow-up'(bench, ctx, { workMs }) {
    ctx.next('child', { workMs: 0 });
    await work(bench, ctx, workMs);
    return (await effect(bench, ctx, 'create', 'look')).id;
  },
  async checkpoint(bench, ctx, { workMs }) {
    if (ctx.checkpointed === undefined) await ctx.checkpoint({ half: true });
    await work(bench, ctx, workMs);
    return (await effect(bench, ctx, 'create', 'look')).id;
  },
  async 'hand-off'(bench, ctx, { workMs }) {
    if (ctx.checkpointed === undefined) {
      await work(bench, ctx, workMs);
      await ctx.checkpoint({ half: true });
      return ctx.handOff();
    }
    return (await effect(bench, ctx, 'create', 'look')).id;
  },
  async retry(bench, ctx, { workMs }) {
    await work(bench, ctx, Math.min(workMs, 3_000));
    if (ctx.attempt === 1) throw new RetryableError('not yet');
    return (await effect(bench, ctx, 'create', 'function')).id;
  },
  async exhausted(bench, ctx) {
    await effect(bench, ctx, 'create', 'look');
    throw new RetryableError('never');
  },
  async permanent(bench, ctx, { workMs }) {
    await work(bench, ctx, workMs);
    throw new PermanentError('no');
  },
  async 'permanent after effect'(bench, ctx) {
    await effect(bench, ctx, 'create', 'look');
    throw new PermanentError('no');
  },
  async 'broken receipt'(bench, ctx) {
    await effect(bench, ctx, 'create', 'look', {
      receipt: () => {
        throw new PermanentError('no receipt');
      },
    });
  },
  async 'commit fails'(bench, ctx) {
    await effect(bench, ctx, 'create', 'function', {
      commit: () => {
        throw new PermanentError('not sent');
      },
    });
  },
  async swallows(bench, ctx) {
    // Goes on as if nothing had happened.
    const sent = await effect(bench, ctx, 'create', 'look', {
      commit: () => Promise.reject(new Error('not sent')),
    }).catch(() => undefined);
    return sent?.id ?? 'none';
  },
  async poison(bench, ctx) {
    // Whoever runs it dies of it, before or after the effect exists.
    const commit = async (call: CommitContext): Promise<Made> => {
      if (ctx.attempt % 2 === 0) await bench.make(call);
      return bench.die();
    };
    await effect(bench, ctx, 'create', 'look', { commit });
    return bench.die();
  },
  async human(bench, ctx) {
    await ctx.askHuman('May it be made?');
    return (await effect(bench, ctx, 'create', 'look')).id;
  },
};

interface Otherwise {
  readonly commit?: (call: CommitContext) => Promise<Made>;
  readonly receipt?: (made: Made) => { readonly externalId: string; readonly status: string };
}

/** One thing made at the receiver. I6 is judged where it matters: in the tick in which the commit starts. */
function effect(
  bench: Bench,
  ctx: TaskContext,
  name: string,
  way: 'look' | 'function',
  otherwise: Otherwise = {},
): Promise<{ readonly id: string }> {
  const commit = (call: CommitContext): Promise<Made> => {
    const record = bench.record(ctx.taskId);
    bench.require(
      ctx.ownership === 'held',
      `I6: a commit of ${ctx.taskId} started while the lease was ${ctx.ownership}`,
    );
    bench.require(!call.signal.aborted, `I6: a commit of ${ctx.taskId} started with an aborted signal`);
    bench.require(
      record?.fencingToken === call.fence,
      `I6: a commit of ${ctx.taskId} started under token ${call.fence}, the ledger has ${record?.fencingToken}`,
    );
    bench.require(
      record?.effects[name]?.status === 'intended',
      `I6: a commit of ${ctx.taskId} started without its intent in the ledger`,
    );
    bench.require(
      record?.effects[name]?.token === call.fence,
      `I6: a commit of ${ctx.taskId} started on the intent of another owner`,
    );
    // A read-back under this token would have found it, and nothing older gets through after one.
    bench.require(
      !bench.exists(call.idempotencyKey),
      `I4: a commit of ${ctx.taskId} started although the effect exists`,
    );
    return (otherwise.commit ?? ((same) => bench.make(same)))(call);
  };
  const receipt = otherwise.receipt ?? ((made: Made) => ({ externalId: made.id, status: 'made' }));
  const parts = { system: 'crm', commit };
  if (way === 'function')
    return ctx.effect(name, { ...parts, receiver: 'guarded', readBack: (call) => bench.find(call), receipt });
  return ctx.effect(name, {
    ...parts,
    readBack: guarded('https://receiver.test'),
    receipt: (found) => receipt(found.json() as unknown as Made),
  });
}
