-- The positions at which events were disowned: folds read all of them before they begin.

CREATE INDEX IF NOT EXISTS disownings ON events (position) WHERE type = 'EventsDisowned';
