import type { TaskContext } from '../task-context.ts';
import type { EffectOptions } from '../effect-options.ts';
import type { AnyTask } from '../worker-options.ts';
import type { Activity } from './activity.ts';
import type { StepName } from './call-point.ts';
import type { ReceiverDouble } from './receiver-double.ts';
import { declaredEffect, scenes, type DeclaredEffect, type Scene } from './scene.ts';

/** What a call to the outside is, for the gate. */
export interface CallLabel {
  readonly what: string;
  readonly steps: readonly StepName[];
  readonly name?: string;
}

/** What an instrumented handler tells, and lets its calls go through. */
export interface Stage {
  readonly worker: string;
  readonly activity: Activity;
  readonly doubles: Readonly<Record<string, ReceiverDouble>>;
  /** Every call to the outside goes through here. */
  gate<Answer>(label: CallLabel, call: () => Promise<Answer>): Promise<Answer>;
  declared(effect: DeclaredEffect): void;
  returned(ctx: TaskContext, value: unknown): void;
  threw(ctx: TaskContext, error: unknown): void;
}

/** The same task; its calls go through the gate of a stage, and the stage knows where it is. */
export function instrument(task: AnyTask, stage: Stage): AnyTask {
  return {
    ...task,
    run: (input, ctx) =>
      stage.activity.handler(async (wait) => {
        const scene: Scene = { worker: stage.worker, taskId: ctx.taskId, attempt: ctx.attempt, within: 'handler' };
        try {
          const value: unknown = await scenes.run(scene, async () => task.run(input, watched(ctx, scene, stage, wait)));
          stage.returned(ctx, value);
          return value;
        } catch (error) {
          stage.threw(ctx, error);
          throw error;
        }
      }),
  };
}

type Wait = <Answer>(ask: () => Promise<Answer>) => Promise<Answer>;

function watched(ctx: TaskContext, scene: Scene, stage: Stage, wait: Wait): TaskContext {
  const effect = async (name: string, options: EffectOptions<unknown, unknown>): Promise<unknown> => {
    const declared = declaredEffect(name, options, ctx);
    stage.declared(declared);
    const inside: Scene = { ...scene, within: 'read-back', name, effect: declared };
    const run = ctx.effect as (name: string, options: EffectOptions<unknown, unknown>) => Promise<unknown>;
    return wait(() => scenes.run(inside, () => run(name, watchedEffect(name, options, declared, inside, stage))));
  };
  const own: Partial<TaskContext> = {
    call: (name, options, run) =>
      wait(() =>
        ctx.call(name, options, (call) =>
          scenes.run({ ...scene, within: 'call', name }, () =>
            stage.gate({ what: `call ${name}`, steps: ['call'], name }, () =>
              stage.activity.callback(`ctx.call(${name})`, () => run(call)),
            ),
          ),
        ),
      ),
    effect: effect as unknown as TaskContext['effect'],
    checkpoint: (data) => wait(() => ctx.checkpoint(data)),
  };
  // The rest, getters included, is the context's own.
  return Object.assign(Object.create(ctx) as TaskContext, own);
}

function watchedEffect(
  name: string,
  options: EffectOptions<unknown, unknown>,
  declared: DeclaredEffect,
  scene: Scene,
  stage: Stage,
): EffectOptions<unknown, unknown> {
  const double = Object.hasOwn(stage.doubles, name) ? stage.doubles[name] : undefined;
  const { readBack } = options;
  // What is committed is all there is to read where the read-back is only a word.
  const steps: StepName[] = typeof readBack === 'string' ? ['commit', 'verify'] : ['commit'];
  const read = typeof readBack === 'function' ? readBack : undefined;
  const now = (fence: number): DeclaredEffect => ({ ...declared, fence });
  return {
    ...options,
    commit: (call) =>
      scenes.run({ ...scene, within: 'commit', effect: now(call.fence) }, () =>
        stage.gate({ what: `commit ${name}`, steps, name }, () =>
          stage.activity.callback(`the commit of ${name}`, () => (double ? double.make(call) : options.commit(call))),
        ),
      ),
    ...(read && {
      readBack: (call) =>
        scenes.run({ ...scene, effect: now(call.fence) }, () =>
          stage.gate({ what: `read back ${name}`, steps: ['verify'], name }, () =>
            stage.activity.callback(`the read-back of ${name}`, async () => (double ? double.find(call) : read(call))),
          ),
        ),
    }),
    receipt: (found) => stage.activity.callback(`the receipt of ${name}`, () => options.receipt(found)),
  };
}
