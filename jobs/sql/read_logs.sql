-- The log from a character offset on: the chunk that holds the offset, and all later ones, at most %(limit)s chunks.
SELECT log_offset, logs
  FROM job_logs
 WHERE job_id = %(id)s
   AND log_offset >= coalesce((SELECT log_offset FROM job_logs
                                WHERE job_id = %(id)s AND log_offset <= %(offset)s
                                ORDER BY log_offset DESC LIMIT 1), 0)
 ORDER BY log_offset
 LIMIT %(limit)s
