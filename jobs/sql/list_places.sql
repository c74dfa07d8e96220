-- Concurrency keys in use, each with the number of its jobs that run (or have begun, flows).
SELECT key, sum(running)::int AS running
  FROM (SELECT concurrency_key AS key, count(*) FILTER (WHERE started_at IS NOT NULL) AS running
          FROM queue WHERE concurrency_key IS NOT NULL GROUP BY 1
         UNION ALL
        SELECT key, 0 FROM concurrency_key) AS used
 GROUP BY 1
 ORDER BY 1
