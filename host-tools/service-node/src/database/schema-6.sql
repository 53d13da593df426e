-- Names and paths are bytes: text where they are UTF-8, and blobs where not.
ALTER TABLE jobs ADD COLUMN name_bytes ANY NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN root_bytes ANY NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN directory_bytes ANY NOT NULL DEFAULT '';
UPDATE jobs SET name_bytes = name, root_bytes = root, directory_bytes = directory;
ALTER TABLE jobs DROP COLUMN name;
ALTER TABLE jobs DROP COLUMN root;
ALTER TABLE jobs DROP COLUMN directory;
ALTER TABLE jobs RENAME COLUMN name_bytes TO name;
ALTER TABLE jobs RENAME COLUMN root_bytes TO root;
ALTER TABLE jobs RENAME COLUMN directory_bytes TO directory;

ALTER TABLE programs ADD COLUMN path_bytes ANY NOT NULL DEFAULT '';
UPDATE programs SET path_bytes = path;
ALTER TABLE programs DROP COLUMN path;
ALTER TABLE programs RENAME COLUMN path_bytes TO path;

ALTER TABLE node_state ADD COLUMN path_bytes ANY NOT NULL DEFAULT '';
UPDATE node_state SET path_bytes = path;
ALTER TABLE node_state DROP COLUMN path;
ALTER TABLE node_state RENAME COLUMN path_bytes TO path;
