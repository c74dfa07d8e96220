-- What a flow job runs: the FlowValue of its preview, or of the version that it was started with.
SELECT job.kind, job.runnable_id, coalesce(job.raw_flow, flow_version.value) AS value
  FROM job
  LEFT JOIN flow_version ON flow_version.id = job.runnable_id AND job.kind = 'flow'
 WHERE job.id = %(id)s
