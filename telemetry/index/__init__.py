"""Questions over all sessions at once: an index beside the log, made from its events and made anew at any time."""
