-- Extend the leases of everything a worker runs; claims that are over match nothing and so are not returned.
-- The answer carries cancel requests to the worker.
UPDATE queue
   SET last_ping = statement_timestamp(), mem_peak = greatest(queue.mem_peak, held.mem_peak)
  FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(mem_peaks)s::int[]) AS held (id, attempt, mem_peak)
 WHERE queue.id = held.id AND queue.attempt = held.attempt
   AND queue.id = ANY(%(ids)s::uuid[]) AND queue.running IS TRUE
RETURNING queue.id, queue.attempt, queue.canceled_by, queue.canceled_reason
