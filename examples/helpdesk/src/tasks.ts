import { defineTask, PermanentError, type AnyTask } from '@leasehold/worker';
import { addPage, EMPTY_INDEX, type IndexState } from './articles.ts';
import {
  bookingInput,
  caseInput,
  indexInput,
  reconcileInput,
  statementInput,
  type BookingInput,
  type StatementInput,
} from './inputs.ts';
import { sumOf, toCents } from './money.ts';
import type { ServiceClient } from './service-client.ts';

const BATCH = 6;

/**
 * The tools of the helpdesk's agents, as tasks. The demo's `lease` is short, so that a takeover takes seconds; a worker of one's own would
 * rather use the default of 90 s.
 */
export function helpdeskTasks(service: ServiceClient, lease: string): readonly AnyTask[] {
  const common = {
    lease,
    limits: { attempts: 8, tool: '20s' },
    backoff: { first: '250ms', max: '2s' },
  } as const;

  /** One effect: the case. */
  const openCase = defineTask({
    ...common,
    type: 'open_case',
    input: caseInput,
    async run(input, ctx) {
      await ctx.call('find the customer', { provider: 'helpdesk' }, ({ signal }) =>
        service.read(`/customers/${input.customer}`, ctx, signal),
      );
      const { customer, subject, category, priority, amount, documents } = input;
      const opened = await ctx.effect(
        'open',
        service.posting('/cases', {
          customer,
          subject,
          category,
          priority,
          amount: amount ?? null,
          documents: documents ?? [],
        }),
      );
      return { case: opened.id };
    },
  });

  /** Long: a page at a time, and the next attempt goes on where this one stopped. */
  const rebuildIndex = defineTask({
    ...common,
    type: 'rebuild_index',
    input: indexInput,
    strict: true,
    // The others of a worker's slots stay free for short calls.
    concurrency: 1,
    async run({ collection, pages }, ctx) {
      let index = (ctx.checkpointed as IndexState | undefined) ?? EMPTY_INDEX;
      const resumedAt = index.next;
      while (index.next < pages) {
        ctx.stage('external_call', `page ${index.next + 1} of ${pages}`);
        const page = await service.read(`/articles/${collection}?page=${index.next}`, ctx, ctx.signal);
        index = addPage(index, page as readonly string[]);
        await ctx.checkpoint(index);
      }
      const { articles, words, digest } = index;
      const published = await ctx.effect(
        'publish',
        service.posting('/indexes', { collection, pages, articles, words, digest }),
      );
      return { index: published.id, resumedAt };
    },
  });

  /** The first stage of an import: what is wrong with the statement is found before anything is booked. */
  const importStatement = defineTask({
    ...common,
    type: 'import_statement',
    input: statementInput,
    run(input, ctx) {
      const moved = sumOf(input.entries.map(({ amount }) => amount));
      if (toCents(input.opening) + moved !== toCents(input.closing)) {
        throw new PermanentError(
          'The entries do not lead from the opening to the closing balance; the document was read wrongly.',
        );
      }
      return { next: [ctx.next('book_entries', firstBatch(input))] };
    },
  });

  /** A stage per batch: each is a task of its own, so a crash repeats one batch at the most, and the guard sees to that one. */
  const bookEntries = defineTask({
    ...common,
    type: 'book_entries',
    input: bookingInput,
    async run(input, ctx) {
      const { statement, account, batch, batches, entries, rest, opening, closing } = input;
      ctx.progress(`batch ${batch} of ${batches}`);
      await ctx.effect('book', service.posting('/bookings', { statement, account, batch, entries }));
      const next =
        rest.length > 0
          ? ctx.next('book_entries', {
              ...input,
              batch: batch + 1,
              entries: rest.slice(0, BATCH),
              rest: rest.slice(BATCH),
            })
          : ctx.next('reconcile_statement', { statement, opening, closing });
      return { next: [next] };
    },
  });

  /** The last stage: the service adds up what was booked, and refuses if a batch is missing or was booked twice. */
  const reconcileStatement = defineTask({
    ...common,
    type: 'reconcile_statement',
    input: reconcileInput,
    async run({ statement, opening, closing }, ctx) {
      const done = await ctx.effect('reconcile', service.posting('/reconciliations', { statement, opening, closing }));
      return { reconciliation: done.id };
    },
  });

  return [openCase, rebuildIndex, importStatement, bookEntries, reconcileStatement];
}

function firstBatch(input: StatementInput): BookingInput {
  const { statement, account, entries, opening, closing } = input;
  return {
    statement,
    account,
    batch: 1,
    batches: Math.ceil(entries.length / BATCH),
    entries: entries.slice(0, BATCH),
    rest: entries.slice(BATCH),
    opening,
    closing,
  };
}
