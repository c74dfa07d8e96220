-- Append the output of several running jobs, each at the end of its log; a claim that is over appends nothing.
-- The end is read from the last chunk (one index probe). Two writers at the same end collide on the primary key
-- and the loser tries again.
-- Nothing is appended before the worker knows all secrets that the job has read (the server records each before the value
-- leaves it), because they are masked: secret_reads is how many it knows of. NULL: the writer does not mask.
INSERT INTO job_logs (job_id, log_offset, workspace_id, logs)
SELECT queue.id,
       coalesce((SELECT log_offset + length(last.logs) FROM job_logs AS last
                  WHERE last.job_id = queue.id ORDER BY log_offset DESC LIMIT 1), 0),
       queue.workspace_id, piece.logs
  FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(logs)s::text[], %(secret_reads)s::int[])
       AS piece (id, attempt, logs, secret_reads)
  JOIN queue ON queue.id = piece.id AND queue.attempt = piece.attempt AND queue.running IS TRUE
 WHERE piece.logs <> '' AND queue.id = ANY(%(ids)s::uuid[])
   AND (piece.secret_reads IS NULL
        OR piece.secret_reads = (SELECT count(*) FROM audit
                                  WHERE audit.span = queue.id::text AND audit.operation = 'variables.decrypt_secret'))
RETURNING job_id, log_offset + length(logs)
