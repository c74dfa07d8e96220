-- Everything that reaches one of %(paths)s by imports, at any distance: scripts, and the modules of flows.
WITH RECURSIVE importer (importer_kind, importer_path, importer_node) AS (
    SELECT importer_kind, importer_path, importer_node
      FROM dependency_map
     WHERE workspace_id = %(workspace_id)s AND imported_path = ANY(%(paths)s::text[])
     UNION
    SELECT edge.importer_kind, edge.importer_path, edge.importer_node
      FROM importer
      JOIN dependency_map AS edge
        ON edge.workspace_id = %(workspace_id)s AND edge.imported_path = importer.importer_path
     WHERE importer.importer_kind = 'script'
)
SELECT min(edge.id) AS id, importer.importer_kind, importer.importer_path, importer.importer_node
  FROM importer
  JOIN dependency_map AS edge
    ON edge.workspace_id = %(workspace_id)s AND edge.importer_kind = importer.importer_kind
   AND edge.importer_path = importer.importer_path AND edge.importer_node = importer.importer_node
 GROUP BY 2, 3, 4
 ORDER BY 2, 3, 4
