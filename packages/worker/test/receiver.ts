import { hashJson } from '@leasehold/core';
import type { Json, VirtualClock } from '@leasehold/core';
import { memoryGuard, type MemoryGuard } from '@leasehold/core/memory';
import type { CommitContext } from '@leasehold/worker';
import { running, type Process } from '../src/testing/process.ts';

/** What a receiver made. */
export interface Made {
  readonly id: string;
  readonly key: string;
  readonly scope: string;
  readonly token: number;
  readonly at: number;
}

/** What the receiver remembers of keys and fences. `plain`: nothing. `keyed`: keys alone. `guarded`: both, in one step with the effect. */
export type Manner = 'plain' | 'keyed' | 'guarded';

/** The outside system: it makes things, and can tell what it made. */
export class Receiver {
  readonly made: Made[] = [];
  readonly refusals: string[] = [];
  readonly guard: MemoryGuard;
  /** What the next requests are answered with instead of being done. */
  readonly answers: { readonly status: number; readonly afterMaking?: boolean }[] = [];
  /** What the look endpoint answers next, instead of the truth. */
  readonly looks: Json[] = [];
  /** How long a request is on its way before it arrives. */
  latencyMs = 0;
  readonly #clock: VirtualClock;
  #holds = 0;
  readonly #never = new AbortController().signal;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    this.guard = memoryGuard({ clock });
  }

  madeFor(scope: string): readonly Made[] {
    return this.made.filter((one) => one.scope === scope);
  }

  /** Makes something, as a call of the current process. Rejects as an HTTP client does that throws on 4xx and 5xx. */
  make(manner: Manner, call: CommitContext, from: Process): Promise<Made> {
    return from.outside('make', async () => {
      if (this.latencyMs > 0) await new Promise<void>((resolve) => this.#clock.timer(this.latencyMs, resolve));
      const answer = this.answers.shift();
      if (answer && answer.afterMaking !== true) throw new Error(`receiver answered ${answer.status}`);
      const made = manner === 'guarded' ? await this.#guarded(call) : this.#unguarded(manner, call);
      if (answer) throw new Error(`receiver answered ${answer.status}`);
      return made;
    });
  }

  /** What was made under a key, read with the fence if the receiver has one. */
  find(manner: Manner, call: CommitContext, from: Process): Promise<Made | undefined> {
    return from.outside('find', async () => {
      if (manner === 'guarded') {
        const seen = await this.guard.look(
          { scope: call.scope, token: call.fence, key: call.idempotencyKey },
          this.#never,
        );
        if (seen !== 'absent' && !('previous' in (seen as object))) throw new Error('receiver answered 409');
      }
      return this.made.find((one) => one.key === call.idempotencyKey);
    });
  }

  /** The guard's look endpoint. */
  fetch = async (_url: unknown, init?: RequestInit): Promise<Response> => {
    const from = running.getStore();
    if (!from) throw new Error('fetch outside of a process');
    return from.outside('look', async () => {
      const planned = this.looks.shift();
      if (planned !== undefined)
        return typeof planned === 'number' ? new Response('', { status: planned }) : json(planned);
      const ask = JSON.parse(init?.body as string) as { scope: string; fence: number; key: string };
      const verdict = await this.guard.look({ scope: ask.scope, token: ask.fence, key: ask.key }, this.#never);
      if (typeof verdict === 'string') return json({ state: verdict });
      if ('stale' in verdict) return json({ state: 'stale', highest: verdict.stale });
      if ('inDoubt' in verdict) return json({ state: 'in-doubt' });
      const { status, headers, body } = verdict.previous;
      return json({
        state: 'done',
        response: { status, headers, body: new TextDecoder().decode(body), bodyEncoding: 'utf8' },
      });
    });
  };

  async #guarded(call: CommitContext): Promise<Made> {
    const ask = {
      scope: call.scope,
      token: call.fence,
      key: call.idempotencyKey,
      hold: `hold-${++this.#holds}`,
      requestHash: hashJson('the same'),
      holdMs: 10_000,
      retentionMs: 86_400_000,
    };
    const verdict = await this.guard.begin(ask, this.#never);
    if (typeof verdict === 'string') return this.#refuse(verdict);
    if ('stale' in verdict) return this.#refuse(`stale, ${call.fence} < ${verdict.stale}`);
    if ('inDoubt' in verdict) return this.#refuse('in-doubt');
    if ('previous' in verdict) return JSON.parse(new TextDecoder().decode(verdict.previous.body)) as Made;
    const made = this.#add(call);
    const body = new TextEncoder().encode(JSON.stringify(made));
    await this.guard.finish(ask, { status: 201, headers: {}, body }, this.#never);
    return made;
  }

  #unguarded(manner: Manner, call: CommitContext): Made {
    const known = manner === 'keyed' ? this.made.find((one) => one.key === call.idempotencyKey) : undefined;
    return known ?? this.#add(call);
  }

  #add(call: CommitContext): Made {
    const { idempotencyKey: key, scope, fence: token } = call;
    const made = { id: `made-${this.made.length + 1}`, key, scope, token, at: this.#clock.monotonic() };
    this.made.push(made);
    return made;
  }

  #refuse(why: string): never {
    this.refusals.push(why);
    throw new Error(`receiver answered 409 ${why}`);
  }
}

function json(value: Json): Response {
  return new Response(JSON.stringify(value), { headers: { 'content-type': 'application/json' } });
}
