import type { Answer, Ask } from './side-process.ts';

/** Answers what the parent asks, one ask after another, until it lets go. */
export function answerParent(methods: Readonly<Record<string, (...args: never[]) => unknown>>): void {
  const reply = async ({ id, method, args }: Ask): Promise<Answer> => {
    try {
      return { id, value: await (methods[method] as (...given: readonly unknown[]) => unknown)(...args) };
    } catch (error) {
      return { id, failed: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    }
  };
  process.on('message', (ask: Ask) => {
    void reply(ask).then((answer) => process.send?.(answer));
  });
  // A parent that died does not leave its children running.
  process.on('disconnect', () => process.exit(0));
}
