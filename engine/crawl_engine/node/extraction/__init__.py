"""Extracts pages: cheap ones on the fetch loop, others in processes that can be killed."""
