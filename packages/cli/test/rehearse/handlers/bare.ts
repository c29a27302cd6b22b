import { defineTask } from '@leasehold/worker';

const notify = defineTask({
  type: 'notify',
  async run(input: { to?: string }, ctx) {
    const sent = await fetch('https://mail.example/messages', {
      method: 'POST',
      signal: ctx.signal,
      body: JSON.stringify({ to: input.to ?? 'nobody' }),
    });
    return { message: ((await sent.json()) as { id: string }).id };
  },
});

/** Sends mail with a bare request: nothing keeps a takeover from sending it again. */
// eslint-disable-next-line import/no-default-export -- one of the two ways in which modules export their tasks
export default notify;
