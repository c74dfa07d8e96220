-- Which of these jobs this worker has recorded already: asked when the answer to a completion was lost on the way.
SELECT id FROM completed_job WHERE id = ANY(%(ids)s) AND worker = %(worker)s
