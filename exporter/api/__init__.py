"""The API as files: wire models, pages, documents, the rule from URL to file, and the preview server."""
