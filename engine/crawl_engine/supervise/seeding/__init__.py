"""Turns locators, seed files and posted URLs into jobs."""
