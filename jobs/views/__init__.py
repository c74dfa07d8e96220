"""HTML pages of this app, a module for each subject; endpoints.py is what their scripts call."""
