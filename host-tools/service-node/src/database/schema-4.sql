-- Cores that ran when the node was last ready; nodes had one before this was recorded.
ALTER TABLE nodes ADD COLUMN cores INTEGER NOT NULL DEFAULT 1;
