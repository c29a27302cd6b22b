import { runDemo } from '@leasehold/example-helpdesk';
const t=performance.now();
const keep = process.argv[2];
const r = await runDemo({ ...(keep ? {keep} : {}), onNote: (n) => console.log((performance.now()-t|0), n), onProgress: process.env.P ? (p) => console.log(JSON.stringify({...p, held: p.held.map(h => `${h.worker} ${h.type} ${h.taskId.slice(0,8)} ${h.stage} ${h.reason} ${h.token} ${h.remainingMs}`)})) : () => {} });
console.log(JSON.stringify({ ...r.tally, ms: r.ms }), r.violations);
