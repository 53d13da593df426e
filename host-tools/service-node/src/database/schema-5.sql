-- Programs that no job names are found without reading all jobs.
CREATE INDEX jobs_by_program ON jobs (program);
