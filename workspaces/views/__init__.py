"""HTML pages of this app, a module for each subject."""
