import { AsyncLocalStorage } from 'node:async_hooks';
import type { EffectOptions } from '../effect-options.ts';

/** What a receiver does for its callers, as an effect declares it. */
export type Manner = 'guarded' | 'idempotent' | 'plain';

/** What an effect says about itself. */
export interface DeclaredEffect {
  readonly name: string;
  readonly system: string;
  readonly key: string;
  readonly scope: string;
  readonly fence: number;
  readonly receiver: Manner;
  readonly readBack: 'function' | 'guarded' | 'provider-replays-key' | 'human';
  /** The look endpoint, where the read-back goes through one. */
  readonly lookUrl?: string;
  /** Whether a plain receiver's "absent" ever counts. */
  readonly quiesces: boolean;
}

/** Where in a task the code that runs now is. */
export interface Scene {
  /** `first`, or `second` after a takeover. */
  readonly worker: string;
  readonly taskId: string;
  readonly attempt: number;
  /** `handler`: in the handler itself, outside of `ctx.call` and `ctx.effect`. */
  readonly within: 'handler' | 'call' | 'commit' | 'read-back';
  /** The name that the handler gave to the call or the effect. */
  readonly name?: string;
  readonly effect?: DeclaredEffect;
}

/** The scene of the code that runs now. */
export const scenes: AsyncLocalStorage<Scene> = new AsyncLocalStorage();

/** Where in a task that `runTask` runs the calling code is: for doubles that answer by effect. Nothing outside of one. */
export function currentScene(): Scene | undefined {
  return scenes.getStore();
}

/** What the options of an effect say. */
export function declaredEffect(
  name: string,
  options: EffectOptions<unknown, unknown>,
  task: { readonly taskId: string; readonly idempotencyKey: string; readonly fence: number },
): DeclaredEffect {
  const { readBack, receiver } = options;
  const way = typeof readBack === 'string' ? readBack : typeof readBack === 'object' ? 'guarded' : 'function';
  const implied = way === 'guarded' ? 'guarded' : way === 'provider-replays-key' ? 'idempotent' : 'plain';
  return {
    name,
    system: options.system,
    key: options.key ?? `${task.idempotencyKey}:${name}`,
    scope: task.taskId,
    fence: task.fence,
    receiver: receiver ?? implied,
    readBack: way,
    ...(typeof readBack === 'object' && { lookUrl: readBack.url }),
    quiesces: options.quiesce !== undefined,
  };
}
