-- The log from a character offset on: the chunk that holds the offset, and the later ones that begin within max_chars.
SELECT log_offset, logs
  FROM job_logs
 WHERE job_id = %(id)s
   AND log_offset >= coalesce((SELECT log_offset FROM job_logs
                                WHERE job_id = %(id)s AND log_offset <= %(offset)s
                                ORDER BY log_offset DESC LIMIT 1), 0)
   AND log_offset < %(offset)s::bigint + %(max_chars)s
 ORDER BY log_offset
