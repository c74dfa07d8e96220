-- What the preprocessor made of the event becomes the job's arguments; a restart then goes straight to the entrypoint.
UPDATE job
   SET args = %(args)s::jsonb, preprocessed = true
  FROM queue
 WHERE job.id = %(id)s AND queue.id = job.id AND queue.attempt = %(attempt)s AND queue.running IS TRUE
RETURNING job.id
